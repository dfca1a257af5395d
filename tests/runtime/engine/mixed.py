"""What is asked of an engine in every mode at once, and what it answers."""

from __future__ import annotations

from ddtree.config import Mode
from ddtree.core.sequence import Request, Sampling, Speculative
from ddtree.engine.loop import Engine
from tests.runtime.engine.asking import ask

PROMPTS = [(3, 1, 4, 1, 5, 9, 2, 6), (10,) * 17]
LENGTH = 12
MODES: tuple[Mode, ...] = ("ar", "chain", "ddtree")
HOT = Sampling(temperature=0.9, top_p=0.95, seed=7)


def asked() -> list[Request]:
    """Every mode, greedy and by chance, at once: more than the rows there are."""
    return [
        Request(
            f"{mode}-{sampling.seed}-{i}", prompt, LENGTH, sampling, speculative=Speculative(mode)
        )
        for mode in MODES
        for sampling in (Sampling(), HOT)
        for i, prompt in enumerate(PROMPTS)
    ]


def tokens(engine: Engine) -> list[list[int]]:
    answers = [answer.tokens for answer in ask(engine, asked())]
    assert engine.stats().speculation.accepted > 0
    engine.check_integrity()
    return answers
