"""Replayed prefills leave the bits of eager ones in every form, and the host waits for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.cache.pool import KvPool
from ddtree.config import EngineConfig
from ddtree.core.sequence import Request, Sampling
from ddtree.engine import prefiller
from ddtree.engine.graphs import Graphs
from ddtree.engine.lines import Piece, captured_forms
from ddtree.engine.prefiller import Prefiller
from ddtree.speculate.seam import Models, Pools
from tests.gpu.engine import DEVICE, VOCAB, running, small_kimi, small_models
from tests.gpu.test_host_reads import refusing_waits
from tests.runtime.engine.asking import ask

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
PAGE, PAGES, PROMPTS, CHUNK = 16, 40, 20, 512
KINDS = (Sampling(), Sampling(1.0, seed=7), Sampling(0.8, top_p=0.7, top_k=20, min_p=0.01, seed=9))


def small_smollm2() -> Models:
    """In bfloat16: float32 products are cuBLAS's, whose bits know the other rows."""
    return small_models(DEVICE, torch.bfloat16)


@pytest.fixture(scope="module", params=["smollm2", "kimi", "smollm2 alone"])
def models(request: pytest.FixtureRequest) -> Models:
    found = small_kimi(DEVICE, torch.bfloat16) if request.param == "kimi" else small_smollm2()
    return Models(found.target, None) if request.param == "smollm2 alone" else found


def prefiller_of(models: Models) -> Prefiller:
    """With caches in which whatever is read before it was written is NaN."""
    drafter = models.drafter
    shapes = [models.target.held, *([drafter.shape.layers] if drafter is not None else [])]
    slots = (1 + PROMPTS * PAGES) * PAGE
    pools = [
        KvPool(shape, slots, dtype=torch.bfloat16, device=torch.device(DEVICE)) for shape in shapes
    ]
    for pool in pools:
        pool.kv.fill_(float("nan"))
    return Prefiller(models, Pools(pools[0], pools[1] if drafter else None, PAGE), PAGES + 1)


def piece(prompt: int, begin: int, end: int, length: int) -> Piece:
    tokens = [(7 * at + prompt * at * at + prompt) % VOCAB for at in range(begin, end)]
    pages = [1 + prompt * PAGES + page for page in range(-(-length // PAGE))]
    return Piece(tokens, begin, pages, KINDS[prompt % 3], ends=end == length)


def length_of(prompt: int) -> int:
    return 1 + (37 * prompt) % 190 + (400 if prompt % 7 == 6 else 0)


def rounds(count: int, draw: torch.Generator) -> list[list[Piece]]:
    """`count` prompts in parts, each round at most a chunk: some end, some begin, some go on."""
    at, found = dict.fromkeys(range(count), 0), []
    while at:
        pieces, left = [], CHUNK
        for prompt in list(at):
            length = length_of(prompt)
            taken = int(torch.randint(1, 1 + min(length - at[prompt], 200), (), generator=draw))
            if taken > left:
                continue
            pieces.append(piece(prompt, at[prompt], at[prompt] + taken, length))
            at[prompt], left = at[prompt] + taken, left - taken
            if at[prompt] == length:
                del at[prompt]
        found.append(pieces)
    return found


def cached(one: Prefiller, prompt: int) -> list[torch.Tensor]:
    begin = (1 + prompt * PAGES) * PAGE
    held = slice(begin, begin + length_of(prompt))
    pools = [pool for pool in (one.pools.target, one.pools.drafter) if pool is not None]
    return [pool.kv[:, :, held] for pool in pools]


Said = dict[int, tuple[list[int], torch.Tensor]]  # by prompt: the token, and the logits


def write(one: Prefiller, pieces: list[Piece], said: Said) -> None:
    written = one.write(pieces)
    for at, part in enumerate(pieces):
        if part.ends:
            assert written is not None
            prompt = (part.pages[0] - 1) // PAGES
            said[prompt] = (written.chosen[at].tolist(), written.logits[at].clone())


@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_replay_leaves_the_bits_of_each_prompt_alone_and_whole(
    models: Models, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, eager, replayed = (prefiller_of(models) for _ in range(3))
    alone: Said = {}
    lines: Said = {}
    graphs: Said = {}
    with torch.inference_mode():
        replayed.capture(captured_forms(CHUNK, PROMPTS, PAGES + 1), Graphs())
        parts = rounds(count, torch.Generator().manual_seed(count))
        forms = {replayed.form(pieces) for pieces in parts}
        assert all(form in replayed._captured for form in forms)
        for pieces in parts:
            write(eager, pieces, lines)
            write(replayed, pieces, graphs)
        with monkeypatch.context() as patched:  # a row a prompt, as long as it is
            patched.setattr(prefiller, "line_width", lambda longest, _: -(-longest // 16) * 16)
            for prompt in range(count):
                length = length_of(prompt)
                write(whole, [piece(prompt, 0, length, length)], alone)
    assert sorted(alone) == sorted(lines) == sorted(graphs) == list(range(count))
    for prompt in range(count):
        assert graphs[prompt][0] == lines[prompt][0] == alone[prompt][0]
        assert graphs[prompt][0][1] == 1  # finite
        assert torch.equal(graphs[prompt][1], lines[prompt][1])
        assert torch.equal(graphs[prompt][1], alone[prompt][1])
        for mine, eagerly, other in zip(
            *(cached(one, prompt) for one in (replayed, eager, whole)), strict=True
        ):
            assert torch.isfinite(other).all()
            assert torch.equal(mine, eagerly)
            assert torch.equal(mine, other)


@pytest.mark.parametrize("lines", [1, 2, 8, 24, 48])
def test_every_form_is_as_good_as_the_smallest(models: Models, lines: int) -> None:
    small, large = prefiller_of(models), prefiller_of(models)
    graphs, forms = Graphs(), captured_forms(CHUNK, PROMPTS, PAGES + 1)
    pieces = [piece(0, 0, 9, 9)]
    said: list[Said] = [{}, {}]
    with torch.inference_mode():
        small.capture([forms[0]], graphs)
        large.capture([form for form in forms if form.lines == lines], graphs)
        for one, found in zip((small, large), said, strict=True):
            assert one.form(pieces).lines in (1, lines)
            write(one, pieces, found)
    assert said[0][0][0] == said[1][0][0]
    assert torch.equal(said[0][0][1], said[1][0][1])
    assert all(map(torch.equal, cached(small, 0), cached(large, 0)))


def test_the_host_waits_for_nothing(models: Models) -> None:
    one, pieces = prefiller_of(models), [piece(0, 0, 33, 33), piece(1, 0, 5, 38)]
    with torch.inference_mode():
        one.write(pieces)
        with refusing_waits():
            one.write(pieces)
        one.capture(captured_forms(CHUNK, PROMPTS, PAGES + 1), Graphs())
        one.write(pieces)
        with refusing_waits():
            one.write(pieces)


@pytest.mark.parametrize("chunk", [16, 200, 2048])
@pytest.mark.parametrize("mode", ["ar", "ddtree"])
def test_engines_with_and_without_graphs_answer_alike(chunk: int, mode: str) -> None:
    config = EngineConfig(
        "random",
        None if mode == "ar" else "random",
        mode,  # type: ignore[arg-type]
        budget=8,
        context_length=640,
        max_running_requests=6,
        prefill_chunk=chunk,
    )
    models = small_smollm2()
    asked = [
        Request(str(i), tuple(piece(i, 0, length_of(i), 0).tokens), 20, KINDS[i % 3], logprobs=3)
        for i in range(14)
    ]
    said = []
    for graphs in ("auto", "off"):
        with running(replace(config, graphs=graphs), models) as engine:
            found = ask(engine, asked)
            assert (engine._runner.prefiller.lines > 0) == (graphs == "auto")
        said.append([(answer.tokens, answer.outputs[0].logprobs) for answer in found])
    assert said[0] == said[1]
