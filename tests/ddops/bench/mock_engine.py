"""A real OpenAI-compatible HTTP server that emits k tokens a chunk at planted times.

Runs as a process of its own (`python mock_engine.py PLAN.json`), so that its clock is not the
client's event loop. The plan is the command line's JSON; `/metrics` counts what was really sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Plan:
    """Times in seconds. One chunk is one verify step, its tokens are accepted drafts + 1."""

    ttft: float = 0.05
    gap: float = 0.02
    tokens: tuple[int, ...] = (1, 4, 4, 4)  # per chunk
    stagger: float = 0.0  # request number n answers n % 64 * stagger later
    comments: float | None = None  # seconds between SSE comments before the first token
    usage: str = "every-chunk"  # or final-usage, nothing
    die_after: int | None = None  # chunks in all, then the process is gone
    fail_from: int | None = None  # request number from which HTTP 500 is answered
    garbage: bool = False
    mode: str = "ddtree"
    word: str = "word{n}"  # text of a token, by its number in the answer
    answers: dict[str, str] = field(default_factory=dict)  # not streamed, by a word of the question
    hold: float = 0.0  # seconds before an answer that is not streamed


@dataclass
class Counts:
    requests: int = 0
    held: int = 0
    chunks: int = 0
    steps: int = 0
    accepted: int = 0
    generated: int = 0
    by_position: dict[int, int] = field(default_factory=dict)


@dataclass
class Sent:
    """What one request really got, on the clock that all processes share."""

    received: float
    chunks: list[tuple[float, int]] = field(default_factory=list)  # time, tokens


class Engine:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts = Counts()
        self.sent: dict[str, Sent] = {}  # by what was asked, the last time it was

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read(reader):
                path, body = request
                await self._answer(path, body, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path == "/v1/chat/completions":
            asked = json.loads(body)
            if asked.get("stream"):
                await self._complete(asked, writer)
            else:
                self.counts.held += 1
                await asyncio.sleep(self.plan.hold)
                self.counts.held -= 1
                _send(writer, 200, json.dumps(self._whole(asked)).encode())
        elif path == "/ready":
            _send(writer, 200, b'{"status": "ready"}')
        elif path == "/metrics":
            _send(writer, 200, self._metrics().encode())
        elif path == "/sent":
            _send(writer, 200, json.dumps({k: asdict(v) for k, v in self.sent.items()}).encode())
        elif path == "/server_info":
            _send(writer, 200, json.dumps(self._info()).encode())
        else:
            _send(writer, 200, b"{}")
        await writer.drain()

    async def _complete(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        sent = self.sent[_asked(body)] = Sent(time.monotonic())
        number, self.counts.requests = self.counts.requests, self.counts.requests + 1
        if self.plan.fail_from is not None and number >= self.plan.fail_from:
            _send(writer, 500, b'{"error": {"message": "planted"}}')
            return
        due = loop.time() + self.plan.ttft + number % 64 * self.plan.stagger
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"transfer-encoding: chunked\r\n\r\n")
        _event(writer, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        if self.plan.comments is not None:
            while due - loop.time() > self.plan.comments:
                _chunk(writer, b": still reading\n\n")
                await asyncio.sleep(self.plan.comments)
        total = 0
        for tokens in self._chunks(body.get("max_tokens") or body["max_completion_tokens"]):
            await asyncio.sleep(due - loop.time())
            due += self.plan.gap
            text = self._text(body, total, tokens)
            total += tokens
            event: dict[str, Any] = {"choices": [{"delta": {"content": text}}]}
            if self.plan.usage == "every-chunk":
                event["usage"] = _usage(total)
            sent.chunks.append((time.monotonic(), tokens))
            _event(writer, event)
            self._count(tokens, first=total == tokens)
        last: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "length"}]}
        if self.plan.usage == "every-chunk":
            last["usage"] = _usage(total)
        _event(writer, last)
        if self.plan.usage != "nothing":
            _event(writer, {"choices": [], "usage": _usage(total)})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        question = body["messages"][-1]["content"]
        known = (text for word, text in self.plan.answers.items() if word in question)
        message = {"role": "assistant", "content": next(known, "Paris, says the mock")}
        return {"choices": [{"message": message}], "usage": _usage(4)}

    def _chunks(self, max_tokens: int) -> list[int]:
        """The plan's token counts, cut where the request wants no more."""
        left, chunks = max_tokens, []
        for tokens in self.plan.tokens:
            chunks.append(min(tokens, left))
            left -= chunks[-1]
        return [tokens for tokens in chunks if tokens]

    def _text(self, body: dict[str, Any], start: int, tokens: int) -> str:
        if self.plan.garbage:
            return "!!!!" * tokens
        subject = _asked(body)[:12]
        words = [self.plan.word.format(n=start + n) for n in range(tokens)]
        return "".join(f" {subject}-{word}" for word in words)

    def _count(self, tokens: int, *, first: bool) -> None:
        counts = self.counts
        counts.chunks += 1
        counts.generated += tokens
        if not first:  # the first token comes from the prompt, not from a verify step
            counts.steps += 1
            counts.accepted += tokens - 1
            for position in range(tokens - 1):
                counts.by_position[position] = counts.by_position.get(position, 0) + 1
        if self.plan.die_after is not None and counts.chunks >= self.plan.die_after:
            os._exit(9)  # as kill -9 does: no reply, no goodbye

    def _metrics(self) -> str:
        counts, label = self.counts, 'model="mock"'
        drafted = 0 if self.plan.mode == "ar" else 8 * counts.steps
        lines = [
            "# TYPE ddtree:spec_decode_num_drafts counter",
            f"ddtree:spec_decode_num_drafts_total{{{label}}} {counts.steps}.0",
            f"ddtree:spec_decode_num_draft_tokens_total{{{label}}} {drafted}.0",
            f"ddtree:spec_decode_num_accepted_tokens_total{{{label}}} {counts.accepted}.0",
            f"ddtree:generation_tokens_total{{{label}}} {counts.generated}.0",
            f"ddtree:num_requests_running{{{label}}} {counts.held}.0",
            *(
                "ddtree:spec_decode_num_accepted_tokens_per_pos_total"
                f'{{{label},position="{position}"}} {count}.0'
                for position, count in counts.by_position.items()
            ),
            'ddtree:time_to_first_token_seconds_bucket{le="+Inf"} 3.0',
        ]
        return "\n".join(lines) + "\n"

    def _info(self) -> dict[str, Any]:
        return {
            "engine": "ddtree",
            "version": "0",
            "argv": ["mock", self.plan.mode],
            "dtype": "float32",
            "mode": self.plan.mode,
        }


async def _read(reader: asyncio.StreamReader) -> tuple[str, bytes] | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *headers = head.decode().split("\r\n")
    lengths = [line.split(":")[1] for line in headers if line.lower().startswith("content-length")]
    return first.split(" ")[1], await reader.readexactly(int(lengths[0]) if lengths else 0)


def _asked(body: dict[str, Any]) -> str:
    """Some clients send what they ask in parts."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _usage(total: int) -> dict[str, int]:
    return {"prompt_tokens": 7, "completion_tokens": total, "total_tokens": 7 + total}


def _event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    whole = {"id": "mock", "object": "chat.completion.chunk", "model": "mock", **event}
    _chunk(writer, b"data: " + json.dumps(whole).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


async def main(plan: Plan, port: int) -> None:
    server = await asyncio.start_server(Engine(plan).serve, "127.0.0.1", port, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    planted = json.loads(sys.argv[1])
    planted["tokens"] = tuple(planted.get("tokens", Plan.tokens))
    asyncio.run(main(Plan(**planted), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
