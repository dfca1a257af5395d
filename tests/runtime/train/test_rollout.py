"""Many rows at once write what one at a time would, and keep what the target computed."""

from __future__ import annotations

import pytest
import torch

from ddtree.models.llama import Llama
from ddtree.models.load import load_target
from ddtree.train.corpus import LIKELY, Corpus
from ddtree.train.gather import add
from ddtree.train.loops import GRAM, in_loop
from ddtree.train.rollout import Limits, Rollout, Wanted, likely
from tests.runtime.models.session import CPU, Session
from tests.runtime.train.tiny_run import END, write_target

LAYERS, LONGEST, LIMIT = (0, 2), 64, 40


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    return load_target(write_target(tmp_path_factory.mktemp("target")), torch.float32, CPU)


def prompts(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    sizes = torch.randint(1, 20, (count,), generator=generator).tolist()
    return [torch.randint(1, 38, (size,), generator=generator).tolist() for size in sizes]


def greedy(target: Llama, prompt: list[int]) -> list[int]:
    return Session(target).greedy(prompt, LIMIT)


def answers(target: Llama, asked: list[Wanted], limits: Limits) -> dict[tuple[int, ...], list[int]]:
    found = {}
    for finished in Rollout(target, limits, (), seed=1).run(iter(asked)):
        for one, answer in zip(finished.wanted, finished.answers(), strict=True):
            found[tuple(one.prompt)] = answer
    return found


def test_greedy_answers_are_those_of_one_sequence_alone(target: Llama) -> None:
    asked = [Wanted(prompt, LIMIT) for prompt in prompts(9)]
    found = answers(target, asked, Limits(4, LONGEST, frozenset(), stop_at_loops=False))
    for one in asked:
        assert found[tuple(one.prompt)] == greedy(target, one.prompt)


def test_an_end_token_ends_an_answer_and_belongs_to_it(target: Llama) -> None:
    prompt = prompts(1)[0]
    whole = greedy(target, prompt)
    end = whole[3]
    limits = Limits(2, LONGEST, frozenset({end}), stop_at_loops=False)
    found = answers(target, [Wanted(prompt, LIMIT)], limits)
    assert found[tuple(prompt)] == whole[: whole.index(end) + 1]


def test_an_answer_that_repeats_itself_is_cut_before_the_repetition(target: Llama) -> None:
    asked = [Wanted(prompt, LIMIT) for prompt in prompts(30)]
    found = answers(target, asked, Limits(30, LONGEST, frozenset(), stop_at_loops=True))
    looping = 0
    for one in asked:
        whole = greedy(target, one.prompt)
        # the first token of an answer is the prefill's, which is not watched
        flags = in_loop(whole, 1)
        kept = flags.index(True) + 1 - GRAM if any(flags) else len(whole)
        looping += any(flags)
        assert found[tuple(one.prompt)] == whole[:kept]
    assert looping >= 3


def test_sampled_answers_come_from_the_seed(target: Llama) -> None:
    asked = [Wanted(prompt, LIMIT, 1.0) for prompt in prompts(6)]
    limits = Limits(4, LONGEST, frozenset({END}), stop_at_loops=False)
    first, again = (answers(target, asked, limits) for _ in range(2))
    assert first == again
    assert any(first[tuple(one.prompt)] != greedy(target, one.prompt) for one in asked)


def test_draws_follow_the_targets_probabilities(target: Llama) -> None:
    prompt, count = prompts(1)[0], 4000
    asked = [Wanted(prompt, 1, 1.0)] * count
    limits = Limits(500, len(prompt) + 2, frozenset(), stop_at_loops=False)
    counts = torch.zeros(40)
    for finished in Rollout(target, limits, (), seed=3).run(iter(asked)):
        for answer in finished.answers():
            counts[answer[0]] += 1
    wanted = Session(target).logits(torch.tensor([prompt]))[0, -1].softmax(-1)
    deviation = (counts / count - wanted).abs() / (wanted * (1 - wanted) / count).sqrt()
    assert deviation.max() < 5


def test_what_is_kept_is_what_the_target_computes(target: Llama) -> None:
    limits = Limits(3, LONGEST, frozenset(), stop_at_loops=False)
    rollout = Rollout(target, limits, LAYERS, seed=1)
    corpus: Corpus | None = None
    for finished in rollout.run(Wanted(prompt, LIMIT) for prompt in prompts(5)):
        assert rollout.scales is not None
        corpus = corpus or Corpus(1000, rollout.scales, CPU)
        add(corpus, finished)
    assert corpus is not None
    assert len(corpus.lengths) == 5
    for offset, prompt, length in zip(corpus.offsets, corpus.prompts, corpus.lengths, strict=True):
        fed = slice(offset, offset + length - 1)
        answer = slice(offset + prompt, offset + length - 1)
        out = Session(target).feed(corpus.tokens[fed].unsqueeze(0), LAYERS)
        assert out.features is not None
        wanted = target.logits(out.hidden[0, prompt:]).log_softmax(-1).topk(LIKELY)
        found = corpus.likely.logprobs[answer]
        torch.testing.assert_close(found, wanted.values, atol=1e-4, rtol=1e-4)
        assert corpus.likely.tokens[answer].equal(wanted.indices)
        kept = corpus.scales.unpack(corpus.features[fed], torch.float32)
        assert (kept - out.features[0]).norm() < 0.04 * out.features[0].norm()


def test_likely_tokens_of_a_large_vocabulary_are_those_of_a_sorted_row() -> None:
    logits = torch.randn(50, 128 * 12, generator=torch.Generator().manual_seed(8))
    logits[:, 256:272] += 3  # many of the best in one piece
    found, wanted = likely(logits), logits.log_softmax(-1).topk(LIKELY)
    assert found.tokens.equal(wanted.indices)
    assert found.logprobs.equal(wanted.values)
