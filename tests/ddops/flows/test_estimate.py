"""`ddops estimate`: from bytes, from a run, from a bundle, from the engine's step benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from ddops.cli.app import main
from ddops.errors import SpecError, UsageError
from ddops.flows.bundle import create
from ddops.flows.estimate import Hardware, Wanted, fit, step
from tests.checkout import ROOT
from tests.ddops import records

Captured = pytest.CaptureFixture[str]
H200 = ROOT / "repro" / "h200-smollm2" / "h200-1b84d694.tar.zst"
WANTED = Wanted(budgets=(0, 8))


def test_a_step_is_taken_apart_and_every_guess_is_printed(capsys: Captured) -> None:
    assert main(["estimate", "step", "--budgets", "8"]) == 0
    said = capsys.readouterr().out
    for word in ("14.39", "dense weights", "all-reduce", "dispatch", "assumed:", "not known:"):
        assert word in said


def test_json_has_every_part_with_both_ends(capsys: Captured) -> None:
    assert main(["estimate", "step", "--budgets", "0,8", "--json"]) == 0
    ar, tree = json.loads(capsys.readouterr().out)
    assert ar["tok_s"] == pytest.approx({"low": 133, "high": 133})
    assert tree["step_s"]["low"] * 1e3 == pytest.approx(14.39, abs=0.01)
    assert all({"low", "high"} == set(part["seconds"]) for part in tree["parts"])
    assert tree["assumptions"] and tree["unknown"]


def test_the_field_record_s_arithmetic_is_printed(capsys: Captured) -> None:
    assert main(["estimate", "field"]) == 0
    said = capsys.readouterr().out
    for word in ("368.97", "588.24 to 784.31", "754.72 to 1006.29", "575 to 770", "850 to 980"):
        assert word in said
    assert main(["estimate", "field", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 26


def test_accept_of_the_record_is_used_only_for_its_model() -> None:
    kimi, qwen = (
        step(Hardware(model, "b300", 8), Wanted(budgets=(8,)))[0]
        for model in ("kimi-k2.6", "qwen3-8b")
    )
    assert kimi.accept is not None
    assert qwen.accept is None


def test_a_run_and_its_bundle_are_fitted_alike(tmp_path: Path) -> None:
    home = records.written(tmp_path / "results", troubled=False)
    made = create(home, tmp_path / "bundles")
    of_run, *of_bundle = (fit(p, WANTED).fit.costs for p in (home, made.archive, made.folder))
    assert len(of_run) > 2
    assert all(costs == pytest.approx(of_run) for costs in of_bundle)


def test_held_out_cells_of_the_h200_are_met(capsys: Captured) -> None:
    found = fit(H200, Wanted(budgets=(16,)))
    errors = [abs(one.error) for one in found.by_cell]
    assert len(errors) == 9
    assert median(errors) < 0.05
    assert max(errors) < 0.20
    assert median(abs(one.error) for one in found.by_concurrency) > 0.2, "and it is said"
    assert len(found.observed.left_out) == 3
    assert main(["estimate", "fit", str(H200)]) == 0
    said = capsys.readouterr().out
    for word in ("held out alone", "held out with its concurrency", "extrapolates", "adaptive"):
        assert word in said


def document() -> dict[str, Any]:
    rows = [(batch, budget) for batch in (1, 8) for budget in (0, 16, 64)]
    return {
        "schema_version": 1,
        "kind": "step",
        "ddtree_version": "0.1.0",
        "torch": "2.11.0",
        "device": "NVIDIA H200",
        "pair": "qwen3-8b",
        "weights": "random",
        "dtype": "bfloat16",
        "repeats": 20,
        "copy_bytes_per_s": 4.2e12,
        "steps": [
            {
                "case": {"batch": batch, "budget": budget, "context": 2048},
                "stages_ms": {},
                "step_ms": 5 + (budget > 0) + 0.04 * batch * (budget + 1),
                "floor_bytes": 15_000_000_000,
                "floor_ms": 3.6,
                "ratio": 1.4,
            }
            for batch, budget in rows
        ],
    }


def test_the_engine_s_step_benchmark_is_fitted(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    path.write_text(json.dumps(document()))
    costs = fit(path, WANTED).fit.costs
    assert costs["a node"] == pytest.approx(4e-5)
    assert costs["a step"] == pytest.approx(1.4e-3)
    assert costs["a draft"] == pytest.approx(1e-3)


def test_a_rank_is_projected_to_the_records_boxes(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "rank.json"
    steps = [one for one in document()["steps"] if one["case"]["batch"] == 1]
    steps[1]["case"]["budget"] = 8
    written = {**document(), "pair": "kimi-k2.6", "rank_of": 8, "steps": steps, "argv": ["x"]}
    path.write_text(json.dumps(written))
    assert main(["estimate", "rank", str(path)]) == 0
    said = capsys.readouterr().out
    for word in (
        "303",
        "138.7",
        "122 x (20 to 42 us",
        "on pro6000",
        "not known:",
        "measured alone",
    ):
        assert word in said
    assert main(["estimate", "rank", str(path), "--gpus", "b300", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [one["budget"] for one in made] == [0, 8, 64]
    assert made[1]["record_tok_s"] == 303
    assert {"low", "high", "why"} == set(made[1]["all_reduce_s"])


def test_a_whole_model_is_no_rank(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "step.json"
    path.write_text(json.dumps({**document(), "pair": "kimi-k2.6"}))
    assert main(["estimate", "rank", str(path)]) == 2
    assert "--rank-of 8" in capsys.readouterr().err
    assert main(["estimate", "rank", str(tmp_path / "none")]) == 2


def test_another_document_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "modes.json"
    path.write_text(json.dumps({**document(), "kind": "modes"}))
    with pytest.raises(SpecError, match="kind"):
        fit(path, WANTED)


def test_a_path_that_is_not_there_is_told_what_could_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no") as told:
        fit(tmp_path / "nothing", WANTED)
    assert "python -m ddtree bench step" in (told.value.hint or "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["step", "--budgets", "8,x"], "no budgets"),
        (["step", "--budgets", "8,,16"], "no budgets"),
        (["step", "--accept", "4-"], "no accept"),
        (["step", "--accept", "0.5"], "no accept"),
        (["step", "--model", "kimi"], "no model `kimi`"),
        (["step", "--gpu", "b30"], "did you mean `b300`?"),
        (["fit", str(H200), "--gpu", "h20"], "did you mean `h200`?"),
    ],
)
def test_a_wrong_wish_is_refused(arguments: list[str], said: str, capsys: Captured) -> None:
    assert main(["estimate", *arguments]) == UsageError.exit_code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
