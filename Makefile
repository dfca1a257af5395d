# Two commands: `make demo` (deploy, bench, report, bundle on this machine) and `make test`.
# Stamps carry the checksum of pyproject.toml: nothing is installed twice, a change is noticed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUM := $(shell cksum < pyproject.toml | tr ' ' '-')
RUNTIME := $(VENV)/.runtime-$(SUM)
DEV := $(VENV)/.dev-$(SUM)
TORCH := torch==2.13.0
# What the tests use from outside Python; installed when root and missing.
APT := aria2 bubblewrap chromium fonts-dejavu-core git iproute2 mmdebstrap openssh-client python3-venv systemd-container
# Three workers on two cores: nearly half of the time a test waits for a box, a service or a link.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
# A file is one worker's: what it shares between its tests is made once. Those marked `early` begin first; xdist's own
# order would begin with many tests, however short. Real links, clocks and processes are in it,
# so what fails is run once more; the last line counts these reruns, and a line each names them.
PYTEST := $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --reruns 1
MYPY_PATHS := ddops runtime/ddtree tests

.PHONY: help demo test test-all gpu lint format apt clean
.DELETE_ON_ERROR:

help:
	@echo 'make demo      deploy, bench, report and bundle on this machine (about 10 minutes the first time)'
	@echo 'make test      install what the tests need, lint, run the tests'
	@echo 'make test-all  the same with the tests that take minutes'
	@echo 'make gpu       what needs a CUDA device: MODEL=model.gguf, numbers to results/gpu'
	@echo 'make lint      ruff, mypy --strict, import contracts'
	@echo 'make clean     remove the venv and caches; results stay'

demo: $(RUNTIME)
	@.ci/demo $(BIN)/ddops

test: lint
	$(PYTEST) -m 'not slow'

test-all: lint
	$(PYTEST)

gpu: $(DEV)
	.ci/gpu $(BIN)/python '$(MODEL)' results/gpu

lint: apt $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers auto $(MYPY_PATHS)
	$(BIN)/lint-imports

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

apt:
	@.ci/apt $(APT)

$(BIN)/python: | $(if $(filter test test-all lint,$(MAKECMDGOALS)),apt)
	@.ci/venv $(PYTHON) $(VENV)

$(RUNTIME): $(BIN)/python
	$(BIN)/pip install --quiet '$(TORCH)' -e '.[runtime]'
	@rm -f $(VENV)/.runtime-* && touch $@

$(DEV): $(BIN)/python
	$(BIN)/pip install --quiet '$(TORCH)' -e '.[runtime,dev]'
	@rm -f $(VENV)/.dev-* $(VENV)/.runtime-* && touch $@ $(RUNTIME)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
