"""The engine's command line: flags made from the fields of `EngineConfig`, and its commands.

Neither torch nor the web server is imported before a command needs it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from types import FrameType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ddtree import __version__
from ddtree.config import EngineConfig
from ddtree.server.dialect import AUTO, DIALECTS
from ddtree.stepbench import command as benchmark
from ddtree.train import command as training

BAD_ARGUMENTS, PORT_IN_USE, INTERRUPTED = 2, 5, 130

HELP = {
    "model": "a GGUF file, or a folder with config.json and safetensors",
    "drafter": "a folder in DFlash format, `bundled` or `prompt-lookup`",
    "mode": "ar: one token a step; chain: a draft without branches; ddtree: a draft tree",
    "budget": "nodes of the draft tree besides its root, 1 to 256",
    "adaptive": "choose each step's budget, up to `--budget`, by expected tokens per second",
    "dtype": "of weights and cache; auto: bfloat16 where the hardware multiplies it",
    "device": "where to run; auto: CUDA if there is a device",
    "context_length": "tokens of a request, prompt and answer together",
    "max_running_requests": "requests in one step; more wait",
    "kv_tokens": "tokens the cache holds; by default max-running-requests x context-length",
    "page_size": "tokens of one page of the cache",
    "prefill_chunk": "prompt tokens taken in one step; default 512, of small models on CUDA 2048",
    "prefix_cache": "prompts that begin alike share what is cached of them (default: on)",
    "threads": "CPU threads of a process; by default all cores, in equal parts",
    "tp": "processes, a device each, that share every matrix of the target",
    "ep": "the same, with whole experts: for mixtures over slow links",
    "graphs": "auto: steps and prefills as CUDA graphs where there is CUDA; off: eager",
}

EPILOG = """\
examples:
  python -m ddtree serve --model model.gguf --mode ddtree --drafter bundled --budget 16
  python -m ddtree generate --model model.gguf --max-tokens 64 "def fibonacci(n):"
  python -m ddtree train --model model.gguf --out run
  python -m ddtree bench step --pair qwen3-8b --budget 0,16,64 --context 2048
  python -m ddtree bench modes --model model.gguf --prompts prompts.json --modes ar,chain,ddtree:16

exit codes: 0 done, or drained after SIGTERM; 1 the engine died; 2 bad arguments; 3 model or
drafter cannot be loaded; 4 out of memory; 5 the port is in use; 6 a rank died; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser, commands = _parsers()
    given = parser.parse_args(argv)
    if given.command == "train":
        return _with_texts(training.run, given)
    if given.command == "bench":
        return _with_texts(benchmark.run, given)
    config_fields = {field.name: getattr(given, field.name) for field in fields(EngineConfig)}
    try:
        config = EngineConfig(**config_fields)
    except ValueError as error:
        commands[given.command].error(str(error))
    return _serve(config, given) if given.command == "serve" else _generate(config, given)


def _serve(config: EngineConfig, given: argparse.Namespace) -> int:
    # A signal before the server has its own handlers: nothing runs yet, so nothing is drained.
    signal.signal(signal.SIGTERM, _leave)
    from ddtree.server import log
    from ddtree.server.listen import ListenError, listen

    try:
        sock = listen(given.host, given.port)
    except ListenError as error:
        _say(f"error: {error}\n\nhint: choose another with `--port`, or stop what listens there")
        return PORT_IN_USE if error.in_use else BAD_ARGUMENTS
    from ddtree.server.load import load_words
    from ddtree.server.run import Plan, serve
    from ddtree.server.service import Identity

    log.to_stderr()
    identity = Identity(
        served_model_name=given.served_model_name or config.model,
        argv=tuple(sys.orig_argv),
        api_key=os.environ.get("DDTREE_API_KEY") or None,
    )
    plan = Plan(
        identity, config, lambda: load_words(config.model, given.dialect), given.drain_timeout
    )
    return serve(sock, plan)


def _generate(config: EngineConfig, given: argparse.Namespace) -> int:
    from ddtree.server.exits import LoadError
    from ddtree.server.generate import Wish, generate

    wish = Wish(
        prompt=given.prompt if given.prompt != "-" else sys.stdin.read(),
        chat=given.chat,
        max_tokens=given.max_tokens,
        temperature=given.temperature,
        top_p=given.top_p,
        seed=given.seed,
        ignore_eos=given.ignore_eos,
    )
    try:
        return generate(config, wish)
    except LoadError as error:
        _say(f"error: {error}" + (f"\n\nhint: {error.hint}" if error.hint else ""))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _with_texts(run: Callable[..., int], given: argparse.Namespace) -> int:
    from ddtree.server.texts import load_texts

    return run(given, load_texts)


def _parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(
        prog="python -m ddtree",
        description="The DDTree engine: draft-tree speculative decoding",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ddtree {__version__}")
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = chosen.add_parser("serve", help="answer on an OpenAI-compatible HTTP API")
    generate = chosen.add_parser("generate", help="answer one prompt on the command line")
    for one in (serve, generate):
        for field in fields(EngineConfig):
            _add_flag(one, field)
    _add_serve_flags(serve)
    _add_generate_flags(generate)
    training.add_flags(chosen.add_parser("train", help="make a drafter for a target"))
    benchmark.add_flags(chosen.add_parser("bench", help="time the steps and modes of a pair"))
    return parser, {"serve": serve, "generate": generate}


def _add_flag(parser: argparse.ArgumentParser, field: Field[Any]) -> None:
    kind = get_type_hints(EngineConfig)[field.name]
    flag = f"--{field.name.replace('_', '-')}"
    required = field.default is MISSING
    default = None if required else field.default
    said = HELP[field.name] + ("" if default is None else " (default %(default)s)")
    if kind is bool:
        parser.add_argument(
            flag, action=argparse.BooleanOptionalAction, default=default, help=HELP[field.name]
        )
    elif get_origin(kind) is Literal:
        parser.add_argument(flag, choices=get_args(kind), default=default, help=said)
    else:
        plain = next(one for one in (get_args(kind) or (kind,)) if one is not type(None))
        metavar = {int: "N", str: "PATH"}[plain]
        parser.add_argument(
            flag, type=plain, default=default, required=required, help=said, metavar=metavar
        )


def _add_serve_flags(serve: argparse.ArgumentParser) -> None:
    serve.epilog = "An API key is taken from the environment variable DDTREE_API_KEY"
    serve.add_argument(
        "--served-model-name", metavar="NAME", help="what clients call it; by default the path"
    )
    serve.add_argument("--host", default="127.0.0.1", help="address (default %(default)s)")
    serve.add_argument(
        "--port", type=_port, default=8000, metavar="N", help="0: a free one (default %(default)s)"
    )
    serve.add_argument(
        "--drain-timeout",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="seconds that running requests get after SIGTERM (default %(default)s)",
    )

    serve.add_argument(
        "--dialect",
        choices=(AUTO, *DIALECTS),
        default=AUTO,
        help="how the model writes thoughts and tool calls; auto: as its chat template shows",
    )


def _add_generate_flags(generate: argparse.ArgumentParser) -> None:
    generate.add_argument("prompt", metavar="PROMPT", help="the text to continue; -: from stdin")
    generate.add_argument("--chat", action="store_true", help="as a user's message in a chat")
    generate.add_argument("--max-tokens", type=int, default=128, metavar="N")
    generate.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0: greedy")
    generate.add_argument("--top-p", type=float, default=1.0, metavar="P")
    generate.add_argument("--seed", type=int, default=0, metavar="N")
    generate.add_argument("--ignore-eos", action="store_true", help="go on after the end")


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError(text)
    return port


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


def _leave(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
