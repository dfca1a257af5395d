"""The life of a server process: loading, ready, draining, and the exit codes of the seam."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ddtree.server.exits import exit_code
from tests.checkout import ROOT
from tests.runtime.server.live import until

ASK = {"model": "double-model", "prompt": "a", "max_tokens": 400}  # 100 steps


class Process:
    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stderr is not None
        self.log += iter(self.popen.stderr.readline, "")

    def said(self, event: str) -> bool:
        return any(f" {event}" in line for line in tuple(self.log))

    @property
    def url(self) -> str:
        until(lambda: self.said("listening"), 20)
        port = re.search(r"port=(\d+)", self.log[0])
        assert port is not None
        return f"http://127.0.0.1:{port[1]}"

    def ready(self) -> str:
        until(lambda: self.said("ready"), 20)
        return self.url

    def end(self) -> int:
        code = self.popen.wait(20)
        self._reader.join(5)
        return code


@contextmanager
def started(env: dict[str, str] | None = None, **asked: Any) -> Iterator[Process]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.server.process", json.dumps(asked)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT / "runtime"), **(env or {})},
    ) as popen:
        process = Process(popen)
        try:
            yield process
        finally:
            popen.kill()
            process.end()


def ask(url: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/completions", json={**ASK, **more}, timeout=20)


def test_sigterm_finishes_what_runs_refuses_what_comes_and_exits_0() -> None:
    with started() as process, ThreadPoolExecutor() as pool:
        url = process.ready()
        running = pool.submit(ask, url)
        until(lambda: "running 1.0" in httpx.get(f"{url}/metrics").text)
        process.popen.send_signal(signal.SIGTERM)
        until(lambda: httpx.get(f"{url}/ready").json() == {"status": "draining"})
        refused = ask(url)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert running.result().json()["usage"]["completion_tokens"] == 400
        assert process.end() == 0
    assert process.said("drained")


def test_what_outlives_the_drain_timeout_is_cut_and_told_so() -> None:
    with started(drain_s=0.2, step_s=0.05) as process:
        url = process.ready()
        with httpx.stream(
            "POST", f"{url}/v1/completions", json={**ASK, "stream": True, "max_tokens": 1900}
        ) as response:
            lines = response.iter_lines()
            next(lines)
            process.popen.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == "draining"
        assert process.end() == 0
    assert process.said("drain-cut")


def test_a_second_signal_does_not_wait() -> None:
    with started(drain_s=60, step_s=0.05) as process, ThreadPoolExecutor() as pool:
        url = process.ready()
        running = pool.submit(ask, url, max_tokens=1900)
        until(lambda: "running 1.0" in httpx.get(f"{url}/metrics").text)
        process.popen.send_signal(signal.SIGINT)
        until(lambda: process.said("draining"))
        process.popen.send_signal(signal.SIGINT)
        assert running.result().status_code == 503
        assert process.end() == 0


def test_it_answers_while_it_loads_and_leaves_at_once_when_told_so() -> None:
    with started(load_s=60) as process:
        url = process.url
        assert httpx.get(f"{url}/health").status_code == 200
        loading = httpx.get(f"{url}/ready")
        assert (loading.status_code, loading.json()) == (503, {"status": "loading"})
        assert httpx.get(f"{url}/server_info").status_code == 503
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "double-model"
        assert ask(url).json()["error"]["code"] == "loading"
        process.popen.send_signal(signal.SIGTERM)
        assert process.end() == 0


def test_it_is_ready_only_after_the_engine_has_generated() -> None:
    with started(step_s=0.3) as process:
        url = process.url
        until(lambda: httpx.get(f"{url}/ready").json() == {"status": "warming"})
        process.ready()
        assert httpx.get(f"{url}/ready").json() == {"status": "ready"}
        assert "ddtree:generation_tokens_total 8.0" in httpx.get(f"{url}/metrics").text


def test_an_engine_that_cannot_generate_never_becomes_ready() -> None:
    with started(error="logits are not finite") as process:
        assert process.end() == 3
    assert process.said("cannot-load")
    assert not process.said("ready")


def test_what_cannot_be_loaded_ends_with_its_exit_code() -> None:
    with started(load_error="no such model", exit_code=4) as process:
        assert process.end() == 4
    assert any("no such model" in line for line in process.log)


def test_an_engine_that_dies_takes_the_process_along() -> None:
    with started(dies_at=[20, "CUDA error: illegal memory access"]) as process:
        response = ask(process.ready())
        assert (response.status_code, "illegal memory access" in response.text) == (503, True)
        assert process.end() == 1
    assert process.said("engine-died")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("CUDA error: an illegal memory access was encountered", 1),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", 4),
        ("CapacityError: a cache of 9 pages does not fit", 4),
        ("", 1),
    ],
)
def test_memory_that_ran_out_has_an_exit_code_of_its_own(reason: str, code: int) -> None:
    assert exit_code(reason, otherwise=1) == code


def test_systemd_is_told_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(20)
        with started({"NOTIFY_SOCKET": str(tmp_path / "notify")}) as process:
            assert supervisor.recv(100) == b"READY=1\nSTATUS=serving"
            process.popen.send_signal(signal.SIGTERM)
            assert supervisor.recv(100) == b"STOPPING=1"
            assert process.end() == 0


def test_a_request_is_one_line_in_the_log_without_its_prompt() -> None:
    with started() as process:
        url = process.ready()
        ask(url, prompt="a secret\nplan", max_tokens=8)
        ask(url, prompt="a secret\nplan", wild=1)
        until(lambda: process.said("request"))
        process.popen.send_signal(signal.SIGTERM)
        process.end()
    (line,) = [line for line in process.log if " request " in line]
    assert "completion_tokens=8 finish=length" in line
    assert "secret" not in "".join(process.log)
