"""Which form a prefill is given, and where everything lies in it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ddtree.core.sequence import Sampling
from ddtree.engine.lines import (
    STEPS,
    WIDTH,
    Form,
    Piece,
    captured_forms,
    fields,
    form_of,
    pack,
    smallest,
)
from ddtree.engine.prefiller import line_width, unpack

HOT = Sampling(temperature=0.75, top_p=0.5, top_k=7, min_p=0.25, seed=-3)


def piece(tokens: int, begin: int = 0, pages: tuple[int, ...] = ()) -> Piece:
    return Piece(list(range(1, tokens + 1)), begin, list(pages), Sampling(), ends=True)


def test_lines_are_of_one_width_on_cuda_only() -> None:
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    assert [line_width(longest, cuda) for longest in (1, 16, 17, 512)] == [WIDTH] * 4
    assert [line_width(longest, cpu) for longest in (1, 16, 17, 512)] == [1, 16, 17, 512]


def test_a_form_counts_lines_prompts_and_pages() -> None:
    pieces = [piece(33, begin=60), piece(1), piece(16, pages=(4, 5))]
    assert form_of(pieces, WIDTH, page_size=16) == Form(5, 3, 7)  # 60 + 48 positions
    assert form_of([piece(33)], 33, page_size=4) == Form(1, 1, 9, width=33)


def test_everything_has_its_place() -> None:
    first = Piece([9, 8, 7, 6, 5, 4], 10, [2, 3, 4, 5], HOT, ends=True)
    second = Piece([1, 2], 0, [7], Sampling(), ends=False)
    form = Form(lines=4, prompts=3, pages=5, width=4)
    at = unpack(torch.from_numpy(pack([first, second], form)), form)
    assert at["tokens"].tolist() == [[9, 8, 7, 6], [5, 4, 0, 0], [1, 2, 0, 0], [0] * 4]
    assert at["start"].tolist() == [10, 14, 0, 0]
    assert at["prompt"].tolist() == [0, 0, 1, 3]  # the last one is nobody
    assert at["last"].tolist() == [5, 9, 0]
    assert at["position"].tolist() == [15, 1, 0]
    assert at["table"].tolist() == [[2, 3, 4, 5, 0], [7, 0, 0, 0, 0], [0] * 5, [0] * 5]
    assert [at[name][0].item() for name in ("seed", "top_k")] == [-3, 7]
    assert [at[name][0].item() for name in ("temperature", "top_p", "min_p")] == [0.75, 0.5, 0.25]
    assert at["temperature"].tolist()[1:] == [0.0, 0.0]  # nobody's choice is greedy
    assert at["temperature"].dtype == torch.float32
    assert {at[name].dtype for name in ("tokens", "seed", "table")} == {torch.int64}


def test_a_form_of_nobody_is_all_zeros_but_for_whose_it_is() -> None:
    form = Form(3, 2, 4)
    packed = pack([], form)
    at = unpack(torch.from_numpy(packed), form)
    assert at["prompt"].tolist() == [2, 2, 2]
    at["prompt"].zero_()
    assert not packed.any()


@given(st.integers(1, 70), st.integers(1, 9), st.integers(1, 300))
def test_every_field_begins_where_triton_likes_it(lines: int, prompts: int, pages: int) -> None:
    form = Form(lines, prompts, pages)
    end = 0
    for field in fields(form).values():
        assert field.begin % 2 == 0
        assert field.begin >= end
        end = field.begin + field.words
    assert len(pack([], form)) == end


@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=64),
    chunk=st.integers(1, 2000),
)
def test_whatever_a_step_takes_has_a_form_that_wastes_little(
    lengths: list[int], chunk: int
) -> None:
    taken, left = [], chunk
    for length in lengths:
        if left:
            taken.append(piece(min(length, left)))
            left -= len(taken[-1].tokens)
    needed = form_of(taken, WIDTH, page_size=16)
    form = smallest(captured_forms(chunk, rows=64, pages=20), needed)
    assert form is not None
    assert form.holds(needed)
    assert form.lines <= max(8, 1.5 * needed.lines)


@pytest.mark.parametrize(
    ("chunk", "rows", "largest"), [(512, 64, 96), (512, 8, 40), (16, 64, 17), (1, 1, 2)]
)
def test_the_largest_form_holds_a_chunk_of_which_every_prompt_leaves_a_line_unfilled(
    chunk: int, rows: int, largest: int
) -> None:
    forms = captured_forms(chunk, rows, pages=10)
    assert forms[-1].lines == largest
    assert len(forms) <= len(STEPS)
    assert len(set(forms)) == len(forms)
    assert all(form.prompts == min(form.lines, rows) for form in forms)


def test_what_is_larger_than_any_form_has_none() -> None:
    forms = captured_forms(100_000, 64, pages=1000)
    assert forms[-1].lines == STEPS[-1]
    whole = form_of([piece(STEPS[-1] * WIDTH)], WIDTH, page_size=16)
    assert smallest(forms, whole) == forms[-1]
    assert smallest(forms, form_of([piece(STEPS[-1] * WIDTH + 1)], WIDTH, 16)) is None
    assert smallest(forms, form_of([piece(9, begin=17_000)], WIDTH, 16)) is None
    assert smallest(forms, form_of([piece(9)], 9, 16)) is None  # lines of another width


def test_other_ranks_are_told_the_same_and_pack_the_same() -> None:
    form, pieces = Form(4, 3, 5), [piece(20, 3, (1, 2)), piece(5, 0, (3,))]
    told = pickle.loads(pickle.dumps(pieces))
    assert form_of(told, WIDTH, page_size=16) == form_of(pieces, WIDTH, page_size=16)
    assert np.array_equal(pack(told, form), pack(pieces, form))
