"""INT4 words against compressed-tensors' own packing and dequantisation, bit for bit."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddtree.models.packed import dequantise, fits, unpack


@pytest.fixture(scope="module")
def library() -> Any:
    """compressed-tensors, which takes 3 seconds to import; typed Any, as it is."""
    from compressed_tensors.compressors.pack_quantized import helpers
    from compressed_tensors.quantization import QuantizationArgs, QuantizationStrategy
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    args = QuantizationArgs(num_bits=4, strategy=QuantizationStrategy.GROUP, group_size=32)
    return SimpleNamespace(
        pack=helpers.pack_to_int32,
        unpack=helpers.unpack_from_int32,
        dequantize=partial(dequantize, args=args),
    )


def test_a_word_holds_eight_numbers_from_the_low_bits_up() -> None:
    word = torch.tensor([[0x76543210, -1, 0]], dtype=torch.int64).to(torch.int32)
    assert unpack(word).tolist() == [[*range(-8, 0), *[7] * 8, *[-8] * 8]]


def test_every_word_unpacks_to_what_the_library_makes_of_it(library: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(-(2**31), 2**31, (64, 24), generator=generator).to(torch.int32)
    found = unpack(words)
    assert found.dtype == torch.int8
    assert found.equal(library.unpack(words, 4, torch.Size((64, 192))))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_matrices_are_the_librarys_bit_for_bit(dtype: torch.dtype, library: Any) -> None:
    generator = torch.Generator().manual_seed(2)
    numbers = torch.randint(-8, 8, (48, 96), generator=generator).to(torch.int8)
    scale = torch.rand(48, 3, generator=generator).to(dtype) / 50
    found = dequantise(library.pack(numbers, 4), scale)
    wanted = library.dequantize(numbers, scale)
    assert found.dtype == wanted.dtype == dtype
    assert found.equal(wanted)


def test_a_scale_fits_where_it_is_one_a_row_and_equal_group() -> None:
    words, scale = torch.zeros(6, 4, dtype=torch.int32), torch.ones(6, 2)
    assert fits(words, scale)
    assert fits(words, torch.ones(6, 1))
    for other in (torch.ones(6, 3), torch.ones(5, 2), torch.ones(6), torch.ones(6, 2).int()):
        assert not fits(words, other)
    assert not fits(words.long(), scale)
