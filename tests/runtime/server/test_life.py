"""The life of a server process: loading, ready, draining, and the exit codes of the seam."""

from __future__ import annotations

import json
import os
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
import psutil
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

    def engine(self) -> psutil.Process:
        """The engine's own process."""
        (engine,) = psutil.Process(self.popen.pid).children()
        return engine

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
        engine = process.engine()
        process.popen.send_signal(signal.SIGTERM)
        assert process.end() == 0
        until(lambda: ended(engine))


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
    assert any("no token can be generated: logits are not finite" in line for line in process.log)
    assert not process.said("ready")


def test_what_cannot_be_loaded_ends_with_its_exit_code() -> None:
    with started(load_error="no such model", exit_code=4, hint="look again") as process:
        assert process.end() == 4
    assert any('"no such model" hint="look again"' in line for line in process.log)


def test_a_fault_while_loading_has_its_traceback_in_the_log() -> None:
    with started(load_fault="a kernel does not compile") as process:
        assert process.end() == 1
    assert any('reason="RuntimeError: a kernel does not compile"' in line for line in process.log)
    assert any("traceback=" in line for line in process.log)


def test_an_engine_that_is_killed_while_it_loads_ends_the_server() -> None:
    with started(load_s=60) as process:
        assert httpx.get(f"{process.url}/ready").json() == {"status": "loading"}
        process.engine().kill()
        assert process.end() == 1
    assert any("the engine's process was killed by SIGKILL" in line for line in process.log)


def test_an_engine_that_dies_takes_the_process_along() -> None:
    with started(dies_at=[20, "CUDA error: illegal memory access"]) as process:
        response = ask(process.ready())
        assert (response.status_code, "illegal memory access" in response.text) == (503, True)
        assert process.end() == 1
    assert process.said("engine-died")


def test_an_engine_that_is_killed_ends_its_streams_with_the_reason() -> None:
    with started(step_s=0.05) as process:
        with httpx.stream(
            "POST", f"{process.ready()}/v1/completions", json={**ASK, "stream": True}
        ) as response:
            lines = response.iter_lines()
            next(lines)
            process.engine().kill()
            rest = [line for line in lines if line]
        said = json.loads(rest[-2].removeprefix("data: "))["error"]
        assert said["code"] == "engine_dead"
        assert "the engine's process was killed by SIGKILL" in said["message"]
        assert rest[-1] == "data: [DONE]"
        assert process.end() == 1
    assert process.said("engine-died")


def test_a_server_that_is_killed_takes_its_engine_along() -> None:
    with started(step_s=0.05) as process:
        engine = process.engine() if process.ready() else None
        assert engine is not None
        process.popen.kill()
        assert process.end() == -signal.SIGKILL
        until(lambda: ended(engine))


def test_signals_to_the_whole_group_are_the_servers_business() -> None:
    with started(step_s=0.02) as process, ThreadPoolExecutor() as pool:
        url, engine = process.ready(), process.engine()
        running = pool.submit(ask, url, max_tokens=200)
        until(lambda: "running 1.0" in httpx.get(f"{url}/metrics").text)
        for one in (engine.pid, process.popen.pid):
            os.kill(one, signal.SIGINT)
        assert running.result().json()["usage"]["completion_tokens"] == 200
        assert process.end() == 0
        assert ended(engine)


def test_the_key_is_not_where_the_engines_process_shows_it() -> None:
    with started({"DDTREE_API_KEY": "sesame"}) as process:
        process.ready()
        engine = process.engine()
        shown = str(engine.cmdline()) + str(engine.environ())
        assert "PYTHONPATH" in shown
        assert "sesame" not in shown


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


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
