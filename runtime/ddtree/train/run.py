"""A whole run, or a slice of it: held-out answers, rounds of fresh answers and training, the card.

Everything but the small state files is made anew from the seed, so a run can go on anywhere.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ddtree.config import DrafterShape, ModelShape
from ddtree.models.dflash import drafter_shapes
from ddtree.models.folder import SINGLE, FolderWeights
from ddtree.models.hf_config import spread
from ddtree.models.llama import Llama
from ddtree.models.load import drafter_folder, open_drafter, open_target
from ddtree.models.weights import EMBEDDING, HEAD, take
from ddtree.train import state
from ddtree.train.export import CARD, SMALL, export, write_card
from ddtree.train.gather import Gatherer
from ddtree.train.held_out import HeldOut, evaluate
from ddtree.train.learn import Frozen, Learner, Seen
from ddtree.train.net import DrafterNet, draw_weights
from ddtree.train.prompts import Texts
from ddtree.train.recipe import Recipe, differences
from ddtree.train.state import Progress

BUDGETS = (8, 16, 32, 64)
JUDGED = 16  # the budget whose accept decides which weights are the best
GENERATED = ("chat", "code", "question")  # the kinds it is judged on; hand-written ones only report
TOLD = 50  # steps between two lines of the log
LOG = "log.jsonl"


class RecipeError(ValueError):
    """The folder holds a run of another recipe."""


@dataclass(frozen=True)
class Place:
    """Where a slice runs, and for how long."""

    out: Path
    device: torch.device
    dtype: torch.dtype  # of the target
    seconds: float | None = None  # stop at the first checkpoint after so many
    compiled: bool = False  # kernels made by torch.compile, which CUDA needs to be quick
    say: Callable[[str], None] = print


def train(recipe: Recipe, texts: Texts, place: Place) -> bool:
    """Begin or go on; True when the run is finished. Raises ModelError, RecipeError."""
    place.out.mkdir(parents=True, exist_ok=True)
    progress = resumed(recipe, place.out)
    if progress.step == recipe.all_steps and (place.out / SMALL / CARD).is_file():
        place.say(f"{place.out / SMALL}: trained and written, nothing to do")
        return True
    return Run(recipe, texts, place, progress).go()


def resumed(recipe: Recipe, out: Path) -> Progress:
    """The progress in `out`, or a new one. Raises RecipeError when it is another recipe's."""
    found = state.load_progress(out)
    if found is None:
        return Progress(asdict(recipe))
    if changed := differences(recipe, Recipe(**found.recipe)):
        raise RecipeError(f"{out} holds a run of another recipe: {', '.join(changed)}")
    return found


def drafter_shape(recipe: Recipe, target: ModelShape) -> DrafterShape:
    """A drafter with the target's layer sizes. Raises ValueError for a mask that is no token."""
    if recipe.mask_token >= target.vocab_size:
        raise ValueError(f"mask_token {recipe.mask_token}: the target has {target.vocab_size}")
    layers = replace(
        target,
        family="qwen3",
        num_layers=recipe.layers,
        tied_embeddings=False,
        qk_norm=True,
        rope_scaling=None,
        experts=None,
    )
    ids = spread(target.num_layers, recipe.layers)
    return DrafterShape(layers, recipe.block_size, recipe.mask_token, ids)


def first_weights(begin: str, shape: DrafterShape) -> state.Weights:
    """Another drafter's weights, in float32. Raises ModelError, ValueError when it is not alike."""
    folder = drafter_folder(begin)
    found = open_drafter(folder)
    for what in ("block_size", "mask_token_id", "target_layer_ids"):
        if getattr(found, what) != getattr(shape, what):
            raise ValueError(
                f"begin: {folder} has {what} {getattr(found, what)}, not {getattr(shape, what)}"
            )
    stored, wanted = FolderWeights(folder), drafter_shapes(shape)
    if stored.shapes != wanted:
        raise ValueError(f"begin: the weights in {folder} have other names or sizes")
    return {name: stored.read(name).float() for name in wanted}


class Run:
    """One slice. `go` is the whole of it."""

    def __init__(self, recipe: Recipe, texts: Texts, place: Place, progress: Progress) -> None:
        self.recipe, self.place, self.progress = recipe, place, progress
        self.began = self.since = time.monotonic()
        checkpoint = open_target(recipe.model)
        like = torch.empty(0, dtype=place.dtype, device=place.device)
        self.target = Llama(checkpoint.shape, checkpoint.weights, like)
        embedding = take(checkpoint.weights, (EMBEDDING,), like)
        tied = checkpoint.shape.tied_embeddings
        head = embedding if tied else take(checkpoint.weights, (HEAD,), like)
        self.shape = drafter_shape(recipe, checkpoint.shape)
        self.gatherer = Gatherer(self.target, texts, recipe, self.shape.target_layer_ids)
        net = DrafterNet(self.shape, place.device)
        self.learner = Learner(net, Frozen(embedding, head), recipe, compiled=place.compiled)

    def go(self) -> bool:
        recipe = self.recipe
        held = self.gatherer.held_out()
        self._note("held out", sequences=len(held.kinds), tokens=held.corpus.size)
        self._restore(held)
        while self.progress.step < recipe.all_steps:
            number = self.progress.step // recipe.steps
            corpus = self.gatherer.round(number)
            self._note("answers", round=number, sequences=len(corpus.lengths), tokens=corpus.size)
            for leg in legs(recipe, self.progress.step, (number + 1) * recipe.steps):
                self.learner.leg(corpus, leg, self._told, TOLD)
                self._checkpoint(leg.stop, held)
                if self._spent() and leg.stop < recipe.all_steps:
                    self.place.say(f"step {leg.stop} of {recipe.all_steps}: run again to go on")
                    return False
            del corpus  # before the next round needs its room
        self._finish(held)
        return True

    def _restore(self, held: HeldOut) -> None:
        if self.progress.step:
            self.learner.take(*state.load(self.place.out, self.progress))
            return
        if self.recipe.begin:
            fresh = first_weights(self.recipe.begin, self.shape)
        else:
            draw_weights(self.learner.net, self.recipe.seed, held.corpus.scales.typical)
            fresh = self.learner.weights()
        self.learner.take(fresh, {name: weight.clone() for name, weight in fresh.items()})

    def _checkpoint(self, step: int, held: HeldOut) -> None:
        """Score, save, and go on from what was saved."""
        scores = evaluate(self.learner, held, (JUDGED,))
        score = scores.mean(str(JUDGED), GENERATED)
        before = self.progress
        better = score > before.best
        if better:
            state.save_best(self.place.out, self.learner.average)
        entry = {
            kind: tally.accept_outside_loops for kind, tally in scores.tallies[str(JUDGED)].items()
        }
        now = time.monotonic()
        self.progress = replace(
            before,
            step=step,
            seconds=before.seconds + now - self.since,
            best=max(score, before.best),
            best_step=step if better else before.best_step,
            history=[*before.history, {"step": float(step), "score": score, **entry}],
        )
        self.since = now
        state.save(self.place.out, self.progress, self.learner.weights(), self.learner.average)
        self.learner.take(*state.load(self.place.out, self.progress))
        self._note("checkpoint", step=step, score=round(score, 4), best=better)

    def _finish(self, held: HeldOut) -> None:
        """The best weights, at 8 bits as they ship, are scored once more and written down."""
        best = state.load_best(self.place.out)
        self.learner.take(best, best)
        scores = evaluate(self.learner, held, BUDGETS)
        size = export(self.place.out, self.shape, self.target.shape.num_layers, best)
        numbers = sum(weight.numel() for weight in best.values())
        facts = {
            "target": Path(self.recipe.model).stem,
            "began as": self._origin(),
            "drafter": f"{self.recipe.layers} layers, block {self.recipe.block_size}, "
            f"{numbers / 1e6:.2f} M parameters; at 8 bits {size / 1e6:.1f} MB",
        }
        write_card(self.place.out, self.progress, scores, facts)
        self._note(
            "finished", folder=str(self.place.out / SMALL), best_step=self.progress.best_step
        )

    def _origin(self) -> str:
        if not self.recipe.begin:
            return "random weights"
        with (drafter_folder(self.recipe.begin) / SINGLE).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return f"an earlier edition, weights of sha256 {digest[:16]}"

    def _told(self, step: int, seen: Seen) -> None:
        accuracy = [round(value, 3) for value in seen.accuracy]
        speed = round(seen.steps_per_second, 2)
        self._note("steps", step=step, loss=round(seen.loss, 4), right=accuracy, a_second=speed)

    def _note(self, what: str, **numbers: Any) -> None:  # noqa: ANN401
        """A line for people, and the same for machines."""
        elapsed = round(time.monotonic() - self.began, 1)
        with (self.place.out / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps({"what": what, "s": elapsed, **numbers}) + "\n")
        said = ", ".join(f"{key} {value}" for key, value in numbers.items())
        self.place.say(f"{elapsed:7.1f} s  {what}: {said}")

    def _spent(self) -> bool:
        limit = self.place.seconds
        return limit is not None and time.monotonic() - self.began > limit


def legs(recipe: Recipe, begin: int, end: int) -> list[range]:
    """Steps begin .. end in pieces that end where a checkpoint is due."""
    cuts = range(0, end, recipe.checkpoint_steps)
    stops = [step for step in cuts if begin < step] + [end]
    return [range(a, b) for a, b in zip([begin, *stops[:-1]], stops, strict=True)]
