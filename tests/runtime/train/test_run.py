"""A whole run on a small target: it learns, it resumes bit for bit, it serves what it promised."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from ddtree.config import EngineConfig
from ddtree.core.sequence import Output, Request
from ddtree.engine.build import build
from ddtree.models.folder import FolderWeights
from ddtree.models.load import load_drafter, load_target, open_drafter
from ddtree.speculate.seam import Models
from ddtree.train import learn, schedule, state
from ddtree.train.held_out import evaluate
from ddtree.train.learn import DivergedError
from ddtree.train.recipe import Recipe
from ddtree.train.run import GENERATED, RecipeError, Run, drafter_shape, legs, resumed, train
from tests.runtime.models.session import CPU
from tests.runtime.train.tiny_run import END, Letters, place, recipe, write_target

BUDGET = 16


@dataclass(frozen=True)
class Done:
    recipe: Recipe
    out: Path
    said: list[str]

    def notes(self, what: str) -> list[dict[str, float]]:
        lines = (self.out / "log.jsonl").read_text().splitlines()
        return [note for line in lines if (note := json.loads(line))["what"] == what]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("whole")
    made = Done(recipe(write_target(folder / "target")), folder / "out", [])
    assert train(made.recipe, Letters(), place(made.out, made.said))
    return made


def untrained(done: Done, out: Path) -> Run:
    out.mkdir()
    return Run(done.recipe, Letters(), place(out, []), resumed(done.recipe, out))


def test_the_loss_falls_and_held_out_accept_rises(done: Done, tmp_path: Path) -> None:
    losses = [note["loss"] for note in done.notes("steps")]
    assert losses[-1] < 0.85 * losses[0]
    fresh = untrained(done, tmp_path / "fresh")
    held = fresh.gatherer.held_out()
    fresh._restore(held)
    before = evaluate(fresh.learner, held, (BUDGET,))
    fresh.learner.take(*[state.load_best(done.out)] * 2)
    after = evaluate(fresh.learner, held, (BUDGET,))
    assert after.mean("chain", GENERATED) > 1.8 > 1.3 > before.mean("chain", GENERATED)
    assert after.mean(str(BUDGET), GENERATED) > 2 * before.mean(str(BUDGET), GENERATED)
    kept = state.load_progress(done.out)
    assert kept is not None
    assert kept.best == pytest.approx(after.mean(str(BUDGET), GENERATED), abs=0.02)


def test_a_run_in_slices_is_the_run_in_one_piece(done: Done, tmp_path: Path) -> None:
    """Cut inside a round, between two rounds, and inside again."""
    for _ in range(3):
        assert not train(done.recipe, Letters(), place(tmp_path, [], seconds=0))
    assert train(done.recipe, Letters(), place(tmp_path, []))
    for name in ("best.safetensors", "state-240.safetensors", "drafter-8bit/model.safetensors"):
        assert (tmp_path / name).read_bytes() == (done.out / name).read_bytes(), name


def test_an_interrupted_run_goes_on_from_its_last_checkpoint(
    done: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    def interrupted(*_: object) -> float:
        nonlocal taken
        taken += 1
        if taken == 100:
            raise KeyboardInterrupt
        return usual(*_)  # type: ignore[arg-type]

    usual = schedule.rate
    with monkeypatch.context() as patch:
        patch.setattr(learn, "rate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(done.recipe, Letters(), place(tmp_path, []))
    assert not list(tmp_path.glob("*.part"))
    assert train(done.recipe, Letters(), place(tmp_path, []))
    wanted = (done.out / "state-240.safetensors").read_bytes()
    assert (tmp_path / "state-240.safetensors").read_bytes() == wanted


def test_a_finished_run_has_nothing_to_do(done: Done) -> None:
    said: list[str] = []
    before = (done.out / "log.jsonl").read_bytes()
    assert train(done.recipe, Letters(), place(done.out, said))
    assert said == [f"{done.out / 'drafter-8bit'}: trained and written, nothing to do"]
    assert (done.out / "log.jsonl").read_bytes() == before


def test_another_recipe_does_not_go_on_with_this_run(done: Done) -> None:
    other = replace(done.recipe, gamma=7.0)
    with pytest.raises(RecipeError, match=r"gamma \(7\.0, was 4\.0\)"):
        train(other, Letters(), place(done.out, []))


def test_both_editions_read_back_as_the_shape_that_was_trained(done: Done) -> None:
    target = load_target(done.recipe.model, torch.float32, CPU)
    wanted = drafter_shape(done.recipe, target.shape)
    for name in ("drafter", "drafter-8bit"):
        assert open_drafter(done.out / name) == wanted
        load_drafter(done.out / name, target.shape, torch.float32, CPU)


def test_the_engine_commits_what_the_walk_promised(done: Done, tmp_path: Path) -> None:
    """Not exactly: the walk's features were kept in 8 bits."""
    scored = untrained(done, tmp_path / "scored")
    held = scored.gatherer.held_out()
    small = FolderWeights(done.out / "drafter-8bit")
    weights = {name: small.read(name).float() for name in small.shapes}
    scored.learner.take(weights, weights)
    tallies = evaluate(scored.learner, held, (BUDGET,)).tallies[str(BUDGET)].values()
    promised = sum(tally.tokens for tally in tallies) / sum(tally.steps for tally in tallies)

    target = load_target(done.recipe.model, torch.float32, CPU)
    drafter = load_drafter(done.out / "drafter-8bit", target.shape, torch.float32, CPU)
    config = EngineConfig("", drafter="trained", mode="ddtree", budget=BUDGET, context_length=128)
    engine = build(config, Models(target, drafter))
    engine.start()
    ended = [threading.Event() for _ in held.kinds]

    def listener(i: int) -> Callable[[Output], None]:
        def on_output(output: Output) -> None:
            if output.finish is not None:
                ended[i].set()

        return on_output

    corpus = held.corpus
    for i, (at, size) in enumerate(zip(corpus.offsets, corpus.prompts, strict=True)):
        prompt = tuple(corpus.tokens[at : at + size].tolist())
        request = Request(
            str(i), prompt, done.recipe.answer_tokens, stop_token_ids=frozenset({END})
        )
        engine.submit(request, listener(i))
    for event in ended:
        assert event.wait(60), engine.failure
    totals = engine.stats().speculation
    engine.stop(drain=True, timeout_s=10)
    found = 1 + totals.accepted / totals.verify_steps
    assert found == pytest.approx(promised, rel=0.03)


def test_a_loss_that_is_no_number_ends_the_run(done: Done, tmp_path: Path) -> None:
    wild = replace(done.recipe, rate=1e30)
    with pytest.raises(DivergedError, match="the loss is nan at step"):
        train(wild, Letters(), place(tmp_path, []))
    assert not (tmp_path / "run.json").exists()


def test_prompts_that_never_fit_are_said_at_once(done: Done, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prompt_tokens 2: the shortest chat has 3"):
        train(replace(done.recipe, prompt_tokens=2), Letters(), place(tmp_path, []))


def test_a_target_that_cannot_play_the_user_is_refused(done: Done, tmp_path: Path) -> None:
    class Endless(Letters):
        ends: frozenset[int] = frozenset()

    with pytest.raises(ValueError, match="never ends a user's turn"):
        train(done.recipe, Endless(), place(tmp_path, []))


def test_the_card_has_every_kind_and_mode(done: Done) -> None:
    card = (done.out / "drafter-8bit" / "README.md").read_text()
    assert "| mode | chat | code | question | hand code | hand chat |" in card
    for mode in ("chain", "DDTree, budget 8", "DDTree, budget 64"):
        assert f"\n| {mode} | " in card
    assert "240 steps of 64 blocks in 2 rounds" in card


def test_legs_end_at_multiples_of_a_checkpoint_wherever_they_begin() -> None:
    made = recipe(Path("m"), steps=100, checkpoint_steps=40)
    assert legs(made, 0, 100) == [range(0, 40), range(40, 80), range(80, 100)]
    assert legs(made, 100, 200) == [range(100, 120), range(120, 160), range(160, 200)]
    assert legs(made, 120, 200) == [range(120, 160), range(160, 200)]


def test_a_mask_that_is_no_token_is_refused(done: Done) -> None:
    target = load_target(done.recipe.model, torch.float32, CPU)
    with pytest.raises(ValueError, match="mask_token 40: the target has 40"):
        drafter_shape(replace(done.recipe, mask_token=40), target.shape)


def test_a_run_can_begin_with_an_earlier_edition(done: Done, tmp_path: Path) -> None:
    later = replace(done.recipe, begin=str(done.out / "drafter"), rounds=1, steps=1)
    later = replace(later, checkpoint_steps=1, rate=1e-6)
    out = tmp_path / "later"
    assert train(later, Letters(), place(out, []))
    scored = state.load_progress(out)
    before = state.load_progress(done.out)
    assert scored is not None
    assert before is not None
    assert scored.best == pytest.approx(before.best, rel=0.05)  # its weights went through 16 bits
    assert "| began as | an earlier edition, weights of sha256 " in (
        out / "drafter" / "README.md"
    ).read_text(encoding="utf-8")


def test_a_run_does_not_begin_with_another_shape(done: Done, tmp_path: Path) -> None:
    other = replace(done.recipe, begin=str(done.out / "drafter"), block_size=7)
    with pytest.raises(ValueError, match=r"begin: .* has block_size 6, not 7"):
        train(other, Letters(), place(tmp_path / "other", []))
    wider = replace(done.recipe, begin=str(done.out / "drafter"), layers=1)
    with pytest.raises(ValueError, match=r"begin: "):
        train(wider, Letters(), place(tmp_path / "wider", []))
