"""Compiles every kernel launch of given calls for a GPU that is not there, and weighs it.

The calls run on meta tensors, so that what is compiled is what would be launched, options included.
Run as `python -m tests.runtime.ops.aot ARCH,.. SCENE..`; prints a JSON list. Not interpreted.
Every architecture gets machine code for every variant of every kernel. Of other launches, where no
architecture has proven them, Triton is asked until their shared memory is known: that they fit.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from ddtree.ops import backend

SHARED = {80: 163 << 10, 90: 227 << 10, 100: 227 << 10, 103: 227 << 10, 120: 99 << 10}
POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
OPTIONS = {"num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "launch_pdl"}


@dataclass(frozen=True)
class Launch:
    """One kernel with the types and constants of one launch."""

    function: Any
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, Any], ...]

    @property
    def variant(self) -> tuple[Any, ...]:
        """Launches of one variant run the same code at other sizes or of other types."""
        return self.function, *(pair for pair in self.constants if isinstance(pair[1], bool))

    def compile(self, arch: int) -> Any:
        signature = dict(self.signature)
        names = self.function.arg_names
        aligned = [i for i, name in enumerate(names) if signature[name].startswith("*")]
        source = ASTSource(
            self.function,
            signature,
            constexprs=dict(self.constants),
            attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
        )
        return triton.compile(source, GPUTarget("cuda", arch, 32), dict(self.options))


def described(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Launch:
    options = {k: v for k, v in kwargs.items() if k in OPTIONS}
    rest = {k: v for k, v in kwargs.items() if k not in OPTIONS}
    given = dict(zip(function.arg_names, args, strict=False)) | rest
    assert set(given) == set(function.arg_names), f"{function} takes {function.arg_names}"
    fixed = {p.name for p in function.params if p.is_constexpr}
    signature = {n: "constexpr" if n in fixed else kind(given[n]) for n in function.arg_names}
    constants = {n: given[n] for n in function.arg_names if n in fixed}
    return Launch(
        function, tuple(signature.items()), tuple(constants.items()), tuple(options.items())
    )


def kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    if isinstance(value, bool):
        return "i1"
    return "i32" if isinstance(value, int) else "fp32"


@contextmanager
def recording(arch: int) -> Iterator[list[Launch]]:
    """Launches are noted instead of run; the device looks like one of `arch`."""
    launches: dict[Launch, None] = {}
    result: list[Launch] = []
    run_for_real = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        launches[described(self, args, kwargs)] = None

    JITFunction.run = run
    device = backend.Limits(SHARED[arch], multiprocessors=132, one_rounding=arch == 90)
    try:
        with backend.kernels_everywhere(), backend.pretending(device):
            yield result
    finally:
        JITFunction.run = run_for_real
        result.extend(launches)


@contextmanager
def until_it_fits() -> Iterator[None]:
    """Triton ends when it knows what a kernel needs; PTX and machine code are two fifths of all."""
    stages_of = CUDABackend.add_stages

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        def no_ptx(_: Any, metadata: dict[str, Any]) -> str:
            metadata["name"] = "not compiled"
            return ""

        stages_of(self, stages, *rest)
        stages |= {"ptx": no_ptx, "cubin": lambda *_: b""}

    with patch.object(CUDABackend, "add_stages", add_stages):
        yield


class Compiler:
    """Compiles for one architecture after another, the one with the least shared memory first."""

    def __init__(self) -> None:
        self.done: dict[Launch, dict[int, bool]] = {}  # whether tensor cores multiply, by arch
        self.report: list[dict[str, Any]] = []

    def compile_all(self, arch: int, launches: list[Launch]) -> None:
        variants: set[tuple[Any, ...]] = set()
        for launch in launches:
            if launch.variant not in variants:
                self._compile(arch, launch)
            elif not self._proven(launch, arch):
                with until_it_fits():
                    self._compile(arch, launch)
            variants.add(launch.variant)

    def _proven(self, launch: Launch, arch: int) -> bool:
        """Layouts, and so shared memory, are those of a generation, or of all: no tensor cores."""
        others = self.done.get(launch, {}).items()
        return any(not multiplies or other // 10 == arch // 10 for other, multiplies in others)

    def _compile(self, arch: int, launch: Launch) -> None:
        try:
            compiled = launch.compile(arch)
        except Exception as error:
            error.add_note(f"of {launch.function.__name__} for sm_{arch}")
            raise
        multiplies = bool(re.search(r"tt\.dot .*(f16|f8|i8|tf32)", compiled.asm["ttir"]))
        self.done.setdefault(launch, {})[arch] = multiplies
        target = re.search(r"^\.target (\w+)", compiled.asm["ptx"], re.MULTILINE)
        self.report.append(
            {
                "kernel": launch.function.__name__,
                "architecture": arch,
                "shared": compiled.metadata.shared,
                "limit": SHARED[arch],
                "ptx": target and target[1],  # None: there was no need for any
            }
        )


def main(architectures: list[int], scenes: list[Callable[[], None]]) -> list[dict[str, Any]]:
    compiler = Compiler()
    for arch in sorted(architectures, key=lambda arch: SHARED[arch]):
        with recording(arch) as launches:
            for scene in scenes:
                scene()
        compiler.compile_all(arch, launches)
    return compiler.report


if __name__ == "__main__":
    from tests.runtime.ops import scenes

    numbers = [int(number) for number in sys.argv[1].split(",")]
    found = main(numbers, [getattr(scenes, name) for name in sys.argv[2:]])
    sys.stdout.write(json.dumps(found))
