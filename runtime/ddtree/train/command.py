"""`python -m ddtree train`: the recipe from a file, from flags, or both; what the shell is told.

torch is imported once the recipe is known to be sound.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from ddtree.train.prompts import Texts
from ddtree.train.recipe import Recipe, from_values

DONE, FAILED, BAD_ARGUMENTS, CANNOT_LOAD, OUT_OF_MEMORY, INTERRUPTED = 0, 1, 2, 3, 4, 130

HELP = {
    "model": "the target: a GGUF file, or a folder with config.json and safetensors",
    "mask_token": "a token that the target never writes: stands where the drafter must guess",
    "block_size": "the root and the positions drafted after it",
    "layers": "layers of the drafter, each as large as one of the target's",
    "begin": "a drafter to go on from, a folder or `bundled`; else weights are drawn",
    "seed": "equal seeds give equal runs",
    "rounds": "times that fresh answers are written and trained on",
    "tokens": "tokens kept a round, prompts included",
    "rows": "answers written at once",
    "prompt_tokens": "longer prompts are left out",
    "answer_tokens": "tokens of an answer",
    "warm_share": "share of the answers sampled at temperature 0.7; the rest are greedy",
    "chat_share": "share of the prompts that the target writes itself, as a user",
    "code_share": "share of the prompts that ask for code; the rest are plain questions",
    "steps": "training steps a round",
    "batch": "sequences a step",
    "anchors": "blocks of each sequence",
    "rate": "highest learning rate",
    "warm_up": "steps until it is reached",
    "settle": "steps over which it rises again after a checkpoint",
    "weight_decay": "of the matrices",
    "gamma": "position k of a block weighs exp(-(k - 1) / gamma)",
    "soft": "weight of the target's whole distribution; its token has the rest",
    "average": "what the running average of the weights keeps at a step",
    "checkpoint_steps": "steps between two checkpoints",
    "held_out": "held-out prompts of each generated kind",
}

EPILOG = """\
The folder keeps run.json, a small state and the best weights so far: the same command goes on from
there, on this machine or on another one that they were carried to. A finished run has `drafter`,
`drafter-8bit` and a model card in both.
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="of this run")
    parser.add_argument("--recipe", type=Path, metavar="FILE", help="JSON with any of the below")
    for field in fields(Recipe):
        said = HELP[field.name]
        if field.default not in (MISSING, ""):
            said += f" (default {field.default})"
        kind = {"int": int, "float": float, "str": str}[str(field.type)]
        metavar = {"int": "N", "float": "X", "str": "PATH"}[str(field.type)]
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(flag, type=kind, metavar=metavar, help=said)
    parser.add_argument("--seconds", type=float, metavar="S", help="stop at a checkpoint after S")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--eager", action="store_true", help="on CUDA too: compile nothing")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads; default all cores")


def run(given: argparse.Namespace, texts_of: Callable[[str], Texts]) -> int:
    """`texts_of` opens the tokenizer and the chat template of a model."""
    try:
        recipe = _recipe(given)
    except (ValueError, OSError) as error:
        return _fail(f"error: {error}", BAD_ARGUMENTS)
    from ddtree.models.errors import ModelError

    try:
        return _train(recipe, given, texts_of(recipe.model))
    except ModelError as error:
        return _fail(
            f"error: {error}" + (f"\n\nhint: {error.hint}" if error.hint else ""), CANNOT_LOAD
        )
    except ValueError as error:
        return _fail(f"error: {error}", BAD_ARGUMENTS)
    except ArithmeticError as error:
        return _fail(f"error: {error}\n\nhint: begin anew with a lower `--rate`", FAILED)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "out of memory" not in str(error):
            raise
        return _fail(f"error: {error}\n\nhint: lower `--rows` or `--tokens`", OUT_OF_MEMORY)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command goes on from the last checkpoint", INTERRUPTED)


def _train(recipe: Recipe, given: argparse.Namespace, texts: Texts) -> int:
    from ddtree.config import EngineConfig
    from ddtree.engine.resolve import resolve_device, resolve_dtype, use_threads
    from ddtree.train.run import Place, train

    config = EngineConfig(
        recipe.model, device=given.device, dtype=given.dtype, threads=given.threads
    )
    use_threads(config)
    device = resolve_device(config)
    dtype = resolve_dtype(config, device)
    compiled = device.type == "cuda" and not given.eager
    place = Place(given.out, device, dtype, given.seconds, compiled, _say)
    train(recipe, texts, place)
    return DONE


def _recipe(given: argparse.Namespace) -> Recipe:
    """Flags over the file over the defaults. Raises ValueError, OSError."""
    values: dict[str, Any] = {}
    if given.recipe is not None:
        try:
            values = json.loads(given.recipe.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{given.recipe} is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise ValueError(f"{given.recipe} is not a JSON object")
    flags = {field.name: getattr(given, field.name) for field in fields(Recipe)}
    return from_values(values | {key: value for key, value in flags.items() if value is not None})


def _fail(text: str, code: int) -> int:
    _say(text)
    return code


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
