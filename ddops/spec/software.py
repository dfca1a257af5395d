"""The engine as it is installed, and what it leans on."""

from __future__ import annotations

from ddops.spec.base import Word


class Software(Word):
    version: str | None  # of the engine's package
    stamp: str | None  # changes when a file of the package does, as a patch does
    nccl: str | None
    triton_ptxas: str | None  # release of the assembler that Triton brings
    cuda_ptxas: str | None  # path of the one of the CUDA toolkit
    flash_attn_cute: bool
