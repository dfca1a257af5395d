"""The walk over held-out answers against heaps and lists, root by root."""

from __future__ import annotations

import copy

import pytest
import torch

from ddtree.speculate.reference import accept, grow
from ddtree.train.corpus import Corpus, Cut, blocks_at
from ddtree.train.held_out import HeldOut, Tally, evaluate
from ddtree.train.net import draw_weights
from ddtree.train.run import Run, resumed
from tests.runtime.train.tiny_run import Letters, place, recipe, write_target

BUDGETS = (3, 8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    small = recipe(write_target(folder / "target"), held_out=3)
    return Run(small, Letters(), place(folder, []), resumed(small, folder))


@pytest.fixture(scope="module")
def held(run: Run) -> HeldOut:
    found = run.gatherer.held_out()
    draw_weights(run.learner.net, 4, found.corpus.scales.typical)
    run.learner.average = run.learner.weights()
    return found


def accepted_by_lists(run: Run, held: HeldOut, sequence: int, at: int, mode: str) -> int:
    corpus = held.corpus
    cut = Cut(run.recipe.block_size, at, torch.float32)
    blocks = blocks_at(corpus, torch.tensor([sequence]), torch.tensor([[at]]), cut)
    with torch.no_grad():
        logits = run.learner.hidden(blocks)[0, 0, 1:] @ run.learner.frozen.head.T
    best = logits.log_softmax(-1).topk(1 if mode == "chain" else max(BUDGETS))
    budget = run.recipe.block_size - 1 if mode == "chain" else int(mode)
    begin, length = corpus.offsets[sequence], corpus.lengths[sequence]
    answer = corpus.tokens[begin : begin + length].tolist()
    tree = grow(answer[at], best.indices.tolist(), best.values.tolist(), budget)
    chosen = [([*answer, *[-1] * 9])[at + depth + 1] for depth in tree.depths]
    return len(accept(tree, chosen)[0]) - 1


@pytest.mark.parametrize("mode", ["chain", "3", "8"])
def test_every_step_of_the_walk_commits_what_the_oracle_accepts(
    run: Run, held: HeldOut, mode: str
) -> None:
    wanted: dict[str, Tally] = {}
    some = range(0, len(held.kinds), 7)
    for sequence in some:
        tally = wanted.setdefault(held.kinds[sequence], Tally())
        at, end = held.corpus.prompts[sequence], held.corpus.lengths[sequence] - 1
        while at < end:
            committed = accepted_by_lists(run, held, sequence, at, mode) + 1
            tally.add(min(committed, end - at), looping=held.loops[sequence][at])
            at += committed
    few = HeldOut(_only(held, some), [held.kinds[i] for i in some], [held.loops[i] for i in some])
    assert evaluate(run.learner, few, BUDGETS).tallies[mode] == wanted


def _only(held: HeldOut, some: range) -> Corpus:
    """The same corpus, showing these sequences alone."""
    corpus = copy.copy(held.corpus)
    for name in ("offsets", "prompts", "lengths"):
        setattr(corpus, name, [getattr(held.corpus, name)[i] for i in some])
    for name in ("places", "held_places"):
        vars(corpus).pop(name, None)
    return corpus


def test_every_kind_is_there_and_every_token_is_committed_once(run: Run, held: HeldOut) -> None:
    scores = evaluate(run.learner, held, BUDGETS)
    assert set(held.kinds) == {"chat", "code", "question", "hand code", "hand chat"}
    answered = [n - p - 1 for n, p in zip(held.corpus.lengths, held.corpus.prompts, strict=True)]
    for tallies in scores.tallies.values():
        assert sum(tally.tokens for tally in tallies.values()) == sum(answered)


def test_a_larger_budget_never_accepts_less(run: Run, held: HeldOut) -> None:
    tallies = evaluate(run.learner, held, BUDGETS).tallies
    for kind in tallies["3"]:
        assert tallies["8"][kind].accept >= tallies["3"][kind].accept


def test_steps_that_begin_in_a_loop_are_counted_apart() -> None:
    tally = Tally()
    tally.add(5, looping=True)
    tally.add(2, looping=False)
    assert (tally.accept, tally.accept_outside_loops) == (3.5, 2.0)
