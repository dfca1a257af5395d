"""From prompts to a corpus: a round's answers, and those held out, all written by the target."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import cycle, islice

import torch

from ddtree.models.target import Target
from ddtree.train import prompts
from ddtree.train.corpus import Corpus, mixed_seed
from ddtree.train.held_out import HeldOut
from ddtree.train.loops import in_loop
from ddtree.train.prompts import Frame, Texts
from ddtree.train.recipe import Recipe
from ddtree.train.rollout import Finished, Limits, Rollout, Wanted

USER_TOKENS = 80  # of a user's turn that the target writes
USER_HEAT = (0.8, 1.0)
WARM = 0.7
TYPICAL = 200  # tokens of a sequence, to know how many prompts a round needs
HELD_OUT_ROUND = -1


class Gatherer:
    """Asks one target. Equal seeds give equal corpora."""

    def __init__(
        self, target: Target, texts: Texts, recipe: Recipe, layers: tuple[int, ...]
    ) -> None:
        self.target, self.texts, self.recipe, self.layers = target, texts, recipe, layers
        self.frame: Frame = prompts.frame_of(texts)
        if (least := len(self._tokens("?"))) > recipe.prompt_tokens:
            raise ValueError(f"prompt_tokens {recipe.prompt_tokens}: the shortest chat has {least}")
        self._chats: dict[str, None] = {}  # held-out ones, never trained on

    def round(self, number: int) -> Corpus:
        """Fresh answers until `recipe.tokens` are kept."""
        recipe = self.recipe
        chats = self.chats(number, int(recipe.tokens / TYPICAL * recipe.chat_share) + 1)
        hidden = self._chats.keys() | prompts.all_hand_written()
        seed = mixed_seed(recipe.seed, number)
        sources: dict[str, Callable[[], str]] = {
            "code": prompts.generated("code", seed, held_out=False).__next__,
            "question": prompts.generated("question", seed, held_out=False).__next__,
            "chat": cycle(text for text in chats if text not in hidden).__next__,
        }
        shares = {
            "code": recipe.code_share,
            "question": 1 - recipe.code_share - recipe.chat_share,
            "chat": recipe.chat_share,
        }
        asked = prompts.mixed(sources, shares, seed)
        warm_every = round(1 / recipe.warm_share) if recipe.warm_share else 0
        rollout = self._rollout(number, recipe.rows, stop_at_loops=True)

        def wanted() -> Iterator[Wanted]:
            for i, text in enumerate(asked):
                tokens = self._tokens(text)
                if len(tokens) <= recipe.prompt_tokens:
                    warm = bool(warm_every) and i % warm_every == 0
                    yield Wanted(tokens, recipe.answer_tokens, WARM if warm else 0.0)

        corpus: Corpus | None = None
        for finished in rollout.run(wanted()):
            corpus = corpus or self._corpus(recipe.tokens, rollout)
            add(corpus, finished)
            if corpus.full:
                break
        assert corpus is not None, "prompts do not end"
        return corpus

    def held_out(self) -> HeldOut:
        """Greedy answers, loops and all, to every kind of prompt."""
        recipe = self.recipe
        asked = {
            "chat": self.chats(HELD_OUT_ROUND, recipe.held_out),
            "code": _some("code", recipe),
            "question": _some("question", recipe),
            **prompts.hand_written(),
        }
        self._chats = dict.fromkeys(asked["chat"])
        pairs = [(kind, self._tokens(text)) for kind, texts in asked.items() for text in texts]
        pairs = [(kind, tokens) for kind, tokens in pairs if len(tokens) <= recipe.prompt_tokens]
        rollout = self._rollout(HELD_OUT_ROUND, len(pairs), stop_at_loops=False)
        wanted = [Wanted(tokens, recipe.answer_tokens) for _, tokens in pairs]
        kind_of = {id(one): kind for one, (kind, _) in zip(wanted, pairs, strict=True)}
        corpus: Corpus | None = None
        kinds: list[str] = []
        for finished in rollout.run(iter(wanted)):
            corpus = corpus or self._corpus(len(wanted) * recipe.longest, rollout)
            kept = add(corpus, finished)
            kinds += [kind_of[id(one)] for one in kept]
        assert corpus is not None
        loops = []
        for offset, prompt, length in zip(
            corpus.offsets, corpus.prompts, corpus.lengths, strict=True
        ):
            loops.append(in_loop(corpus.tokens[offset : offset + length].tolist(), prompt))
        return HeldOut(corpus, kinds, loops)

    def chats(self, number: int, count: int) -> list[str]:
        """What the target itself would ask: it goes on where a user begins to speak.

        Left alone it rarely asks a plain question, so mostly the first words are given.
        """
        bare = len(self.texts.encode(self.frame.before))
        begun = [self.texts.encode(self.frame.before + words) for words in prompts.openers()]
        rows = min(self.recipe.rows, 2 * count)
        longest = max(map(len, begun)) + USER_TOKENS
        limits = Limits(rows, longest, self.texts.ends, stop_at_loops=False)
        seed = mixed_seed(self.recipe.seed, number, 1)
        rollout = Rollout(self.target, limits, (), seed)
        beginnings = random.Random(f"openers {seed}").choices(begun, k=4 * count)
        heat = cycle(USER_HEAT)
        asked = (Wanted(begin, USER_TOKENS, next(heat)) for begin in beginnings)
        found: dict[str, None] = {}
        for finished in rollout.run(asked):
            for wanted, answer in zip(finished.wanted, finished.answers(), strict=True):
                if answer[-1] in self.texts.ends:
                    text = self.texts.decode([*wanted.prompt[bare:], *answer[:-1]]).strip()
                    if text:
                        found.setdefault(text)
            if len(found) >= count:
                break
        if not found:
            raise ValueError("the target never ends a user's turn: it cannot write chats")
        return list(islice(found, count))

    def _tokens(self, user: str) -> list[int]:
        return self.texts.encode(self.texts.render(user))

    def _rollout(self, number: int, rows: int, *, stop_at_loops: bool) -> Rollout:
        recipe = self.recipe
        rows = min(rows, recipe.rows)
        limits = Limits(rows, recipe.longest, self.texts.ends, stop_at_loops)
        return Rollout(self.target, limits, self.layers, mixed_seed(recipe.seed, number))

    def _corpus(self, capacity: int, rollout: Rollout) -> Corpus:
        assert rollout.scales is not None
        return Corpus(capacity, rollout.scales, self.target.device)


def add(corpus: Corpus, finished: Finished) -> list[Wanted]:
    """Keep what is long enough to draft in; returns the kept ones."""
    sizes = [len(one.prompt) for one in finished.wanted]
    able = [i for i, length in enumerate(finished.lengths) if length - sizes[i] >= 2]
    if not able:
        return []
    before = len(corpus.lengths)
    rows = finished.rows[torch.tensor(able, device=finished.rows.device)]
    lengths = [finished.lengths[i] for i in able]
    corpus.add(rows, [sizes[i] for i in able], lengths, finished.staged)
    kept = len(corpus.lengths) - before
    return [finished.wanted[i] for i in able[:kept]]


def _some(kind: prompts.Kind, recipe: Recipe) -> list[str]:
    return prompts.distinct(prompts.generated(kind, recipe.seed, held_out=True), recipe.held_out)
