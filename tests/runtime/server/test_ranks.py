"""One service of two ranks: one address, the same answers, one end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import psutil
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from tests.runtime.engine.pairs import DENSE, write_random
from tests.runtime.server.live import until
from tests.runtime.server.test_life import Process, ended

PROMPT = "One rank, two ranks"
LONG = 240  # tokens


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bytes_model(tmp_path_factory.mktemp("ranks") / "bytes")


def write_bytes_model(folder: Path) -> Path:
    """A token a byte, and weights that mean nothing."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    write_random(folder, DENSE | {"vocab_size": len(alphabet)})
    inner = tokenizers.Tokenizer(models.BPE({byte: i for i, byte in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.save(str(folder / "tokenizer.json"))
    return folder


def argv(command: str, model: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "ddtree", command, "--model", str(model), "--mode", "ddtree"),
        *("--drafter", "prompt-lookup", "--budget", "6", "--context-length", "300"),
        *("--dtype", "float32", "--device", "cpu", "--threads", "1"),
    ]


@contextmanager
def serving(model: Path, *more: str) -> Iterator[Process]:
    command = [*argv("serve", model), "--port", "0", "--served-model-name", "bytes", *more]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as popen:
        process = Process(popen)
        try:
            until(lambda: process.said("ready") or popen.poll() is not None, 120)
            assert process.said("ready"), process.log
            yield process
        finally:
            popen.kill()
            process.end()


def other_rank(process: Process) -> psutil.Process:
    """Of the first one's, which is the engine's process."""
    (other,) = process.engine().children()
    assert "ddtree.engine.follow" in other.cmdline()
    return other


@contextmanager
def asking(process: Process) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{process.url}/v1", api_key="none", max_retries=0, timeout=60
    ) as client:
        yield client


def alone(model: Path, *more: str) -> str:
    """What one rank answers, by the command line."""
    said = subprocess.run(
        [*argv("generate", model), "--max-tokens", "40", *more, PROMPT],
        capture_output=True,
        timeout=120,
        check=True,
    )
    return said.stdout.decode().removesuffix("\n")


def test_two_ranks_say_what_one_says_and_finish_it_when_the_group_is_told_to_end(
    model: Path,
) -> None:
    with serving(model, "--tp", "2") as process, asking(process) as client:
        other = other_rank(process)
        for hot in ([], ["--temperature", "0.8", "--seed", "5"]):
            answer = client.completions.create(
                model="bytes",
                prompt=PROMPT,
                max_tokens=40,
                temperature=0.8 if hot else 0,
                seed=5,
            )
            assert answer.choices[0].text == alone(model, *hot)
            assert answer.usage is not None
            assert answer.usage.completion_tokens == 40
        told = httpx.get(f"{process.url}/server_info").json()
        assert (told["tp"], told["ep"]) == (2, 1)
        assert told["model"]["shape"]["num_heads"] == DENSE["num_attention_heads"]
        with client.completions.create(
            model="bytes", prompt=PROMPT, max_tokens=LONG, temperature=0, stream=True,
            stream_options={"include_usage": True},
        ) as stream:  # fmt: skip
            chunks = iter(stream)
            next(chunks)
            os.killpg(process.popen.pid, signal.SIGTERM)  # as a supervisor does
            usage = [chunk.usage for chunk in chunks][-1]
        assert usage is not None
        assert usage.completion_tokens == LONG
        assert process.end() == 0
    assert not other.is_running()


def test_a_killed_rank_ends_the_service_with_its_reason_and_a_code_of_its_own(model: Path) -> None:
    with serving(model, "--tp", "2") as process, ThreadPoolExecutor() as pool:
        other = other_rank(process)
        other.suspend()  # so that no answer ends before it
        body = {"model": "bytes", "prompt": PROMPT, "max_tokens": LONG}
        url = f"{process.url}/v1/completions"
        answer = pool.submit(lambda: httpx.post(url, json=body, timeout=60))
        until(lambda: "running 1.0" in httpx.get(f"{process.url}/metrics").text, 30)
        other.kill()
        response = answer.result()
        assert response.status_code in (500, 503)
        assert "rank 1 was killed by SIGKILL" in json.dumps(response.json())
        assert process.end() == 6
    (died,) = [line for line in process.log if " engine-died " in line]
    assert 'reason="rank 1 was killed by SIGKILL"' in died


def test_no_rank_outlives_the_server(model: Path) -> None:
    with serving(model, "--tp", "2") as process:
        first, other = process.engine(), other_rank(process)
        process.popen.kill()
        assert process.end() == -signal.SIGKILL
        until(lambda: ended(first) and ended(other), 30)


def test_no_rank_outlives_the_first(model: Path) -> None:
    with serving(model, "--tp", "2") as process:
        other = other_rank(process)
        process.engine().kill()
        assert process.end() == 1
        until(lambda: ended(other), 30)
    assert any("the engine's process was killed by SIGKILL" in line for line in process.log)


def test_ranks_that_do_not_divide_the_model_end_it_as_one_that_cannot_be_loaded(
    model: Path,
) -> None:
    said = subprocess.run(
        [*argv("generate", model), "--tp", "3", "hello"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 3
    assert "4 attention heads, 256 tokens of the vocabulary, " in said.stderr
    assert "cannot be shared out to 3 ranks" in said.stderr
    assert "Traceback" not in said.stderr
