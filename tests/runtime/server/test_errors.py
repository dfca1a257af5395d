"""Errors keep OpenAI's shape, whoever is at fault."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest

from ddtree.server import app
from tests.runtime.server.double import Double, endless, saying
from tests.runtime.server.live import MODEL, Live, live, until
from tests.runtime.server.test_completions import HI


def error(response: httpx.Response) -> dict[str, Any]:
    said: dict[str, Any] = response.json()["error"]
    assert set(said) == {"message", "type", "param", "code"}
    return said


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-none", messages=HI)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert MODEL in caught.value.message
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-none")


@pytest.mark.parametrize("prompt", ["x" * 2000, [7] * 2000, ["a", "x" * 3000]])
def test_a_prompt_that_fills_the_context_is_refused(client: openai.OpenAI, prompt: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt=prompt)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")


def test_a_long_chat_blames_its_messages(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x" * 2000}]
        )
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": [5, 257]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": ["a"] * 200, "n": 2}, "n"),
        ({"prompt": "a", "stop": [""]}, "stop"),
    ],
)
def test_a_prompt_that_cannot_be_served_names_its_parameter(
    server: Live, given: dict[str, Any], param: str
) -> None:
    response = server.post("/v1/completions", given)
    assert response.status_code == 400
    assert error(response)["param"] == param


def test_messages_the_template_refuses_are_a_bad_request(server: Live) -> None:
    messages = [{"role": "assistant", "content": "a"}]
    said = error(server.post("/v1/chat/completions", {"messages": messages}))
    assert said["param"] == "messages"
    assert "the user speaks first" in said["message"]


def test_what_the_engine_refuses_is_a_bad_request_and_leaves_nothing_behind(server: Live) -> None:
    response = server.post("/v1/completions", {"prompt": ["a" * 50, "a" * 1996], "stream": True})
    assert response.status_code == 400
    assert error(response)["message"] == "the prompt does not fit into the cache"
    until(lambda: server.engine.stats().running == 0)
    assert server.service.in_flight == 0


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"\xff\xfe", b'{"model": "' + b"\\ud800" + b'"}']
)
def test_a_body_that_is_no_json_is_a_bad_request(server: Live, body: bytes) -> None:
    with server.http() as client:
        response = client.post("/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert error(response)["code"] == "invalid_json"


def test_a_body_that_is_too_large_is_refused(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_BODY_BYTES", 100_000)
    response = server.post("/v1/completions", {"prompt": "x" * 300_000})
    assert response.status_code == 413
    assert error(response)["code"] == "body_too_large"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/completions", 405), ("POST", "/v1/embeddings", 404), ("GET", "/nowhere", 404)],
)
def test_a_route_that_is_not_there_says_so_in_the_same_shape(
    server: Live, method: str, path: str, status: int
) -> None:
    with server.http() as client:
        response = client.request(method, path)
    assert response.status_code == status
    assert path in error(response)["message"]


def test_a_fault_in_the_engine_ends_a_whole_answer_with_500() -> None:
    with live(Double(endless, error="logits are not finite")) as server:
        response = server.post("/v1/completions", {"prompt": "a"})
    assert response.status_code == 500
    assert "logits are not finite" in error(response)["message"]
    assert error(response)["type"] == "server_error"


def test_a_fault_in_mid_stream_is_an_event_the_client_raises() -> None:
    with live(Double(endless, error="logits are not finite", step_s=0.05)) as server:
        heard = ""
        with (
            server.openai() as client,
            client.completions.create(model=MODEL, prompt="a", stream=True) as stream,
            pytest.raises(openai.APIError, match="logits are not finite"),
        ):
            for chunk in stream:
                heard += chunk.choices[0].text
    assert heard == "abc "


def test_an_engine_that_dies_ends_what_runs_and_refuses_what_comes() -> None:
    with live(Double(endless, step_s=0.01)) as server, server.http() as client:
        body = {"model": MODEL, "prompt": "a", "stream": True, "max_tokens": 1000}
        with client.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            death = asyncio.run_coroutine_threadsafe(server.service.death(), server.loop)
            server.engine.die("CUDA error: an illegal memory access")
            rest = [line for line in lines if line]
        assert (
            "illegal memory access"
            in json.loads(rest[-2].removeprefix("data: "))["error"]["message"]
        )
        assert rest[-1] == "data: [DONE]"
        assert death.result(5) == "CUDA error: an illegal memory access"
        refused = server.post("/v1/completions", {"prompt": "a"})
        assert refused.status_code == 503
        assert error(refused)["code"] == "failed"
        assert client.get("/ready").json() == {"status": "failed"}


def test_a_request_to_an_engine_that_has_just_died_is_refused(server: Live) -> None:
    with live(Double(saying("a"))) as dead:
        dead.engine.die("out of memory")
        until(lambda: dead.remote.failure is not None)
        refused = dead.post("/v1/completions", {"prompt": "a"})
    assert refused.status_code == 503
    assert "out of memory" in error(refused)["message"]


@pytest.mark.parametrize("status", ["loading", "warming", "draining"])
def test_a_server_that_is_not_ready_refuses_politely(status: Any) -> None:
    with live(Double()) as server, server.http() as client:
        server.service.status = status
        refused = server.post("/v1/completions", {"prompt": "a"})
        assert (refused.status_code, error(refused)["code"]) == (503, status)
        assert refused.headers["retry-after"] == "1"
        assert client.get("/ready").status_code == 503
        assert client.get("/ready").json() == {"status": status}
        assert client.get("/health").status_code == 200


def test_without_the_key_nothing_under_v1_answers() -> None:
    with live(Double(), api_key="sesame") as server:
        with server.openai("guess") as client, pytest.raises(openai.AuthenticationError) as caught:
            client.models.list()
        assert caught.value.code == "invalid_api_key"
        with server.openai("sesame") as client:
            assert client.completions.create(model=MODEL, prompt="a").choices
        with server.http() as plain:
            assert plain.post("/v1/completions", json={}).status_code == 401
            assert [plain.get(path).status_code for path in ("/health", "/ready", "/metrics")] == [
                200, 200, 200,
            ]  # fmt: skip
            assert "sesame" not in plain.get("/server_info").text


@pytest.mark.parametrize("given", ["Bearer", "Bearer sesame2", "sesame", "Bearer s\xe9same", ""])
def test_only_the_exact_key_opens(given: str) -> None:
    with live(Double(), api_key="sesame") as server, server.http() as client:
        headers = {"Authorization": given.encode("latin-1")}
        assert client.get("/v1/models", headers=headers).status_code == 401  # type: ignore[arg-type]
