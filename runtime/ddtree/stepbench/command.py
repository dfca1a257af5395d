"""`python -m ddtree bench`: step times of a shape, or the modes of a real pair side by side.

torch is imported once the flags are known to be sound.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

DONE, BAD_ARGUMENTS, CANNOT_LOAD = 0, 2, 3
CONTEXT = 1024  # tokens of a request of `modes`, prompt and answer


class Texts(Protocol):
    """A tokenizer and a chat template, opened by the caller."""

    def encode(self, text: str) -> list[int]: ...
    def render(self, user: str) -> str: ...
    @property
    def ends(self) -> frozenset[int]: ...


def add_flags(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    step = kinds.add_parser("step", help="each stage of a step against the bytes it must move")
    step.add_argument(
        "--model", "--pair", dest="pair", default="smollm2-135m", metavar="SHAPE",
        help="a target's shape, its drafter's too (default %(default)s)",
    )  # fmt: skip
    step.add_argument("--rank-of", type=int, default=1, metavar="N", help="one of N ranks' share")
    step.add_argument("--layers", type=int, metavar="N", help="the target's first N layers alone")
    step.add_argument("--batch", type=_ints, default=(1,), metavar="N,..", help="rows (default 1)")
    step.add_argument(
        "--budget", type=_ints, default=(0, 16, 64), metavar="N,..", help="0: ar (default 0,16,64)"
    )
    step.add_argument("--context", type=int, default=512, metavar="N", help="cached positions")
    modes = kinds.add_parser("modes", help="tokens per second, accept and equality of modes")
    modes.add_argument("--model", required=True, metavar="PATH", help="a GGUF file or a folder")
    modes.add_argument("--drafter", default="bundled", metavar="PATH")
    modes.add_argument(
        "--prompts", type=Path, required=True, metavar="FILE", help="JSON: texts, in any lists"
    )
    modes.add_argument(
        "--modes", default="ar,chain,ddtree:16", help="the first one is what others are held to"
    )
    modes.add_argument("--concurrency", type=int, default=1, metavar="N")
    modes.add_argument("--max-tokens", type=int, default=192, metavar="N")
    modes.add_argument("--ignore-eos", action="store_true", help="every answer has max-tokens")
    for one in (step, modes):
        one.add_argument("--repeats", type=int, default=15 if one is step else 3, metavar="N")
        one.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
        one.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
        one.add_argument("--json", type=Path, metavar="FILE", help="keep the numbers here")


def run(given: argparse.Namespace, texts_of: Callable[[str], Texts]) -> int:
    """`texts_of` opens the tokenizer and the chat template of a model."""
    from ddtree.models.errors import ModelError

    try:
        document, table = _step(given) if given.kind == "step" else _modes(given, texts_of)
    except ModelError as error:
        sys.stderr.write(f"error: {error}\n")
        return CANNOT_LOAD
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_ARGUMENTS
    sys.stdout.write(table + "\n")
    if given.json is not None:
        document["argv"] = sys.orig_argv
        given.json.write_text(json.dumps(document, indent=1) + "\n")
    return DONE


def _step(given: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ddtree.config import EngineConfig
    from ddtree.engine.resolve import resolve_device, resolve_dtype
    from ddtree.stepbench import report
    from ddtree.stepbench.shapes import PAIRS

    if given.pair not in PAIRS:
        raise ValueError(f"no shape `{given.pair}`; there are {', '.join(PAIRS)}")
    config = EngineConfig(given.pair, device=given.device, dtype=given.dtype)
    device = resolve_device(config)
    dtype = resolve_dtype(config, device)
    if given.rank_of < 1 or (given.layers is not None and given.layers < 1):
        raise ValueError("--rank-of and --layers count from 1")
    cases = (given.batch, given.budget, given.context)
    share = (given.rank_of, given.layers)
    document = report.run(report.Wanted(given.pair, *cases, dtype, device, given.repeats, *share))
    return document, report.table(document)


def _modes(
    given: argparse.Namespace, texts_of: Callable[[str], Texts]
) -> tuple[dict[str, Any], str]:
    from ddtree.config import EngineConfig
    from ddtree.stepbench import modes

    variants = [modes.parse(text) for text in given.modes.split(",")]
    found = texts_in(json.loads(given.prompts.read_text()))
    if not found:
        raise ValueError(f"{given.prompts} holds no texts")
    texts = texts_of(given.model)
    asked = modes.Asked(
        prompts=[tuple(texts.encode(texts.render(text))) for text in found],
        max_tokens=given.max_tokens,
        concurrency=given.concurrency,
        ends=frozenset() if given.ignore_eos else texts.ends,
        repeats=given.repeats,
    )
    where = {"device": given.device, "dtype": given.dtype}
    base = EngineConfig(given.model, drafter=given.drafter, context_length=CONTEXT, **where)
    document = modes.run(base, variants, asked)
    return document, modes.table(document)


def texts_in(document: object) -> list[str]:
    """The texts of a JSON document: strings in lists, and `text` of objects."""
    if isinstance(document, list):
        nested = [[one] if isinstance(one, str) else texts_in(one) for one in document]
        return [text for texts in nested for text in texts]
    if not isinstance(document, dict):
        return []
    if isinstance(document.get("text"), str):
        return [document["text"]]
    return texts_in([value for value in document.values() if not isinstance(value, str)])


def _ints(text: str) -> tuple[int, ...]:
    values = tuple(int(part) for part in text.split(","))
    if min(values) < 0:
        raise ValueError(text)
    return values
