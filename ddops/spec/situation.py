"""Everything a rule may ask about, under one name each. What nobody knows is None."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word
from ddops.spec.deployment import EngineName, Mode
from ddops.spec.shape import Attention, Method, Yarn

Link = Literal["alone", "nvlink", "pcie", "mixed", "unknown"]
Fabric = Literal["ready", "starting", "failed", "absent", "unknown"]


class Situation(Word):
    # the wish
    engine: EngineName
    mode: Mode
    budget: int
    adaptive: bool
    device: Literal["auto", "cpu", "cuda"]
    threads: int | None
    kv_tokens: int | None
    graphs: bool
    parallel: Literal["auto", "tp", "ep"]
    nvls: Literal["auto", "on", "off"]
    context_length: int
    max_running_requests: int
    prefill_chunk: int | None
    prefix_cache: bool
    drafter: str | None  # the path or word that the engine is given; None: no drafter
    use: int  # GPUs the engine takes on this box
    nodes: int  # boxes it runs over
    rank: int  # of this box
    leader: str | None  # address of rank 0
    leader_port: int | None
    # the engine's Python
    version: str | None  # of the engine
    flags: frozenset[str] | None  # that the engine knows
    nccl: str | None
    triton: str | None
    triton_ptxas: str | None  # release of the assembler that Triton brings
    cuda_ptxas: str | None  # path of the one that CUDA brings
    flash_attn_cute: bool | None
    # the box
    gpus: int
    gpu: str | None  # name of the first
    capability: str | None  # `10.3`
    mixed: bool  # GPUs of several kinds
    mig: bool  # some GPU is cut into instances
    link: Link  # between the GPUs
    fabric: Fabric  # of NVSwitch: what NVLS needs
    # the model
    family: str | None
    attention: Attention | None
    experts: int | None
    vision: bool | None
    remote_code: bool | None
    max_context: int | None
    drafter_method: Method | Literal["prompt-lookup"] | None
    depth: int | None
    yarn: Yarn | None
    # GiB a GPU
    memory: float | None
    weights: float | None  # target and drafter, their share
    of_drafter: float | None  # of these
    cache: float | None  # of `cache_tokens`
    cache_tokens: int | None  # `kv_tokens`, or what the engine takes without
    reserve: float | None  # activations, graphs, libraries
    fits_tokens: int | None  # the largest cache that fits beside weights and reserve

    @property
    def tree(self) -> bool:
        return self.mode == "ddtree"
