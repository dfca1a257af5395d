"""Two processes that share one model answer as one does, and end together."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ddtree.config import EngineConfig
from ddtree.core.sequence import Finish, Request
from ddtree.engine.errors import RankError, RequestError
from ddtree.engine.loop import Engine
from ddtree.engine.open import open_engine
from ddtree.engine.others import ending
from ddtree.engine.ranks import Ranks
from ddtree.models.errors import ModelError
from ddtree.parallel.join import leave
from tests.runtime.engine.asking import Answer
from tests.runtime.engine.mixed import PROMPTS, tokens
from tests.runtime.engine.pairs import opened, write_drafter, write_target
from tests.runtime.models import test_deepseek as kimi
from tests.runtime.server.live import until


def others(engine: Engine) -> Ranks:
    assert isinstance(engine._others, Ranks)
    return engine._others


@pytest.mark.parametrize(
    ("family", "shared"),
    [
        ("llama", {"tp": 2}),
        ("qwen3", {"tp": 2}),
        ("qwen3_moe", {"ep": 2}),
        ("deepseek_v3", {"tp": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, *value.items())),
)
def test_two_ranks_answer_token_for_token_as_one(
    family: str, shared: dict[str, int], tmp_path: Path
) -> None:
    model, drafter = write_target(tmp_path / "m", family), write_drafter(tmp_path / "d")
    with opened(model, drafter) as alone:
        wanted = tokens(alone)
    assert len({tuple(answer) for answer in wanted}) == 2 * len(PROMPTS), "greedy ones and others"
    with opened(model, drafter, **shared) as engine:
        assert engine.shape.num_heads == alone.shape.num_heads
        assert tokens(engine) == wanted
        processes = [other.process for other in others(engine)._others]
    assert all(process.returncode is not None for process in processes)


def test_packed_experts_are_shared_out_whole(tmp_path: Path) -> None:
    model = kimi.write(tmp_path / "m", kimi.published()[0])
    with opened(model, "prompt-lookup") as alone:
        wanted = tokens(alone)
    with opened(model, "prompt-lookup", ep=2) as engine:
        assert tokens(engine) == wanted


def test_ranks_leave_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL's end waits for all ranks to come to it, and for graphs that hold its collectives."""
    said: list[str] = []
    with opened(write_target(tmp_path / "m", "llama"), "prompt-lookup", tp=2) as engine:
        (other,) = others(engine)._others
        other.process.send_signal(signal.SIGSTOP)  # it has not left

        def leaving() -> None:
            said.append("alone" if other.process.poll() is not None else "together")
            other.process.send_signal(signal.SIGCONT)
            leave()

        monkeypatch.setattr("ddtree.engine.ranks.leave", leaving)
        monkeypatch.setattr(engine._runner.stepper, "release", lambda: said.append("released"))
    assert said == ["released", "together"]
    assert other.process.returncode == 0


def test_a_rank_that_is_killed_ends_the_engine_with_its_reason(tmp_path: Path) -> None:
    model = write_target(tmp_path / "m", "llama")
    with opened(model, "prompt-lookup", tp=2) as engine:
        answer = Answer()
        (other,) = others(engine)._others
        other.process.send_signal(signal.SIGSTOP)  # so that no answer ends before it
        engine.submit(Request("long", (1, 2, 3), 80), answer)
        other.process.kill()
        last = answer.wait()
        assert (last.finish, last.error) == (Finish.ERROR, "rank 1 was killed by SIGKILL")
        assert not engine.alive
        with pytest.raises(RequestError, match="rank 1 was killed"):
            engine.submit(Request("late", (1,), 1), Answer())
    assert not others(engine).folder.exists()


def test_an_idle_engine_hears_of_a_death_too(tmp_path: Path) -> None:
    with opened(write_target(tmp_path / "m", "llama"), "prompt-lookup", tp=2) as engine:
        others(engine)._others[0].process.kill()
        until(lambda: not engine.alive, 30)
        assert engine.failure == "rank 1 was killed by SIGKILL"


def test_what_a_rank_cannot_load_is_raised_as_it_is(tmp_path: Path) -> None:
    model = write_target(tmp_path / "m", "llama")
    with pytest.raises(ModelError, match="has no experts to share out") as caught:
        open_engine(EngineConfig(str(model), device="cpu", ep=2))
    assert caught.value.hint == "give --tp 2 for --ep"


def test_a_rank_that_dies_while_loading_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_target(tmp_path / "m", "llama")
    begun: list[Ranks] = []
    real = Ranks.__init__

    def stillborn(self: Ranks, config: EngineConfig) -> None:
        real(self, config)
        begun.append(self)
        self._others[0].process.kill()

    monkeypatch.setattr(Ranks, "__init__", stillborn)
    with pytest.raises(RankError, match="rank 1 was killed by SIGKILL"):
        open_engine(EngineConfig(str(model), device="cpu", tp=2))
    assert not begun[0].folder.exists()


def test_ranks_are_counted_before_anything_is_loaded() -> None:
    with pytest.raises(ValueError, match="tp and ep are two ways"):
        EngineConfig("m", tp=2, ep=2)
    with pytest.raises(ValueError, match="tp must be positive"):
        EngineConfig("m", tp=0)
    assert (EngineConfig("m").ranks, EngineConfig("m", ep=4).ranks) == (1, 4)


def test_an_end_is_said_in_words() -> None:
    assert ending(3) == "ended with exit code 3"
    assert ending(-signal.SIGSEGV) == "was killed by SIGSEGV"
