"""What a training run is asked to do: frozen, torch-free, the same in every slice of the run.

Flags of `python -m ddtree train` are generated from the fields; a JSON file may give them too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

POSITIVE = (
    "rounds",
    "tokens",
    "rows",
    "prompt_tokens",
    "answer_tokens",
    "steps",
    "batch",
    "anchors",
    "layers",
    "checkpoint_steps",
    "held_out",
)


@dataclass(frozen=True)
class Recipe:
    """Defaults are for SmolLM2-135M on one H200 (docs/training.md)."""

    model: str
    mask_token: int = 16  # a token that the target never writes
    block_size: int = 16
    layers: int = 5
    begin: str = ""  # a drafter to go on from, a folder or `bundled`; none: random weights
    seed: int = 0
    rounds: int = 3  # each: fresh answers, then training on them alone
    tokens: int = 14_000_000  # kept a round, prompts included
    rows: int = 3072  # answers written at once
    prompt_tokens: int = 128  # longer prompts are left out
    answer_tokens: int = 384
    warm_share: float = 0.25  # of the answers, sampled at temperature 0.7
    chat_share: float = 0.5  # of the prompts, written by the target as a user
    code_share: float = 0.25  # of the prompts; the rest are plain questions
    steps: int = 10_000  # a round
    batch: int = 64  # sequences a step
    anchors: int = 32  # blocks a sequence
    rate: float = 1.5e-3
    warm_up: int = 200  # steps
    settle: int = 30  # steps over which the rate rises again after a checkpoint
    weight_decay: float = 0.05
    gamma: float = 4.0  # position k weighs exp(-(k - 1) / gamma)
    soft: float = 0.5  # weight of the target's whole distribution; the rest is its token
    average: float = 0.999  # of the weights, a step
    checkpoint_steps: int = 2000
    held_out: int = 96  # prompts of each generated kind

    def __post_init__(self) -> None:
        for name in POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, is {getattr(self, name)}")
        for name in ("warm_share", "chat_share", "code_share", "soft", "average"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, is {getattr(self, name)}")
        if self.chat_share + self.code_share > 1:
            raise ValueError("chat_share and code_share together are more than 1")
        if self.block_size < 2:
            raise ValueError(f"block_size {self.block_size} leaves nothing to draft")

    @property
    def longest(self) -> int:
        """Positions of the longest sequence."""
        return self.prompt_tokens + self.answer_tokens

    @property
    def all_steps(self) -> int:
        return self.rounds * self.steps


def from_values(values: dict[str, Any]) -> Recipe:
    """Raises ValueError, naming the key."""
    types = {field.name: str(field.type) for field in fields(Recipe)}
    for key, value in values.items():
        if key not in types:
            raise ValueError(f"{key} is no part of a recipe; known: {', '.join(types)}")
        able: tuple[type, ...] = {"int": (int,), "float": (int, float), "str": (str,)}[types[key]]
        if isinstance(value, bool) or not isinstance(value, able):
            raise ValueError(f"{key} must be {types[key]}, found {value!r}")
    if "model" not in values:
        raise ValueError("model is missing: a GGUF file or a model folder")
    return Recipe(**values)


def differences(now: Recipe, before: Recipe) -> list[str]:
    """The fields in which two recipes differ, in words. Where the model lies is no difference."""
    old, new = asdict(before), asdict(now)
    return [
        f"{key} ({new[key]}, was {old[key]})"
        for key in new
        if key != "model" and new[key] != old[key]
    ]
