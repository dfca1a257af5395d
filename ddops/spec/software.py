"""The engine as it is installed, and what it leans on."""

from __future__ import annotations

from ddops.spec.base import Word


class Software(Word):
    installed: bool  # the engine's module is there
    version: str | None  # of the engine's package; None: not installed as a package
    nccl: str | None
    triton: str | None = None  # earlier archives do not have it
    triton_ptxas: str | None  # release of the assembler that Triton brings
    cuda_ptxas: str | None  # path of the one of the CUDA toolkit
    flash_attn_cute: bool
