"""What the cost model knows without measuring: GPUs, links, models, and the field record's cells.

Data in `ddops/analysis/cost/*.yaml`; every entry says where it comes from.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ddops.spec.base import Word
from ddops.spec.deployment import Mode

LinkName = Literal["nvlink", "pcie"]


class Link(Word):
    """How GPUs of one box reach each other."""

    name: LinkName
    latency_us: tuple[float, float]  # of one small all-reduce, best and worst that was reported
    gb_s: float = Field(gt=0)  # one direction, one GPU
    source: str


class Processor(Word):
    name: str
    driver_name: str  # a part of what the driver calls it
    tb_s: float = Field(gt=0)  # peak of the memory
    tflops: float = Field(gt=0)  # bfloat16, dense
    memory_gb: float = Field(gt=0)  # 1e9 bytes
    link: LinkName
    source: str


class Experts(Word):
    count: int = Field(ge=1)  # routed, a layer
    top: int = Field(ge=1)  # of them, for one token
    shared: int = Field(ge=0)
    width: int = Field(ge=1)
    layers: int = Field(ge=1)  # that have experts; the others are dense
    bytes_per_weight: float = Field(gt=0)  # scales included
    packed_bytes_per_weight: float = Field(gt=0)  # scales left out


class Latent(Word):
    """The ranks of multi-head latent attention."""

    query: int
    key_value: int
    nope: int
    rope: int
    value: int


class Target(Word):
    """Sizes of a model; everything but the routed experts is 16 bits a weight."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    latent: Latent | None = None
    experts: Experts | None = None
    drafter_gb: float | None = None  # 1e9 bytes
    source: str


class Catalogue(Word):
    links: tuple[Link, ...]
    processors: tuple[Processor, ...]
    targets: tuple[Target, ...]


class Measured(Word):
    """One cell of the field record."""

    box: str  # a processor's name
    mode: Mode
    budget: int = Field(ge=0)
    concurrency: int = Field(ge=1)
    tok_s: float = Field(gt=0)
    accept: float = Field(ge=1)
    accept_to: float | None = None  # where the record gives two figures
    anchors: bool = True  # False: predicted, never fitted to
    note: str = ""

    @property
    def step_s(self) -> float:
        return self.concurrency * self.accept / self.tok_s


class MoePoint(Word):
    tokens: int = Field(ge=1)  # that one step verifies
    ms: float = Field(gt=0)  # all layers with experts


class FieldRecord(Word):
    """What `facts` of the campaign give: cells, and the time its MoE layers took on one box."""

    target: str
    gpus: int
    moe_box: str
    moe: tuple[MoePoint, MoePoint]
    cells: tuple[Measured, ...]
    accept_by_budget: dict[int, tuple[float, float]]
    guessed_rest_ms: tuple[float, float]  # all but experts, at 9 and at 33 nodes: its own guess
    source: str

    @model_validator(mode="after")
    def _two_points(self) -> Self:
        if self.moe[0].tokens >= self.moe[1].tokens:
            raise ValueError("the two MoE points must be in the order of their tokens")
        return self


class Written(Word, extra="ignore"):
    """By our engine, maybe a newer one: what it says beside this is not read."""


class StepCase(Written):
    batch: int
    budget: int  # 0 is autoregressive
    context: int  # cached positions a row


class StepRow(Written):
    case: StepCase
    stages_ms: dict[str, float]
    step_ms: float
    floor_bytes: int
    floor_ms: float  # at the bandwidth of a copy
    ratio: float


class Alone(Written):
    """What one rank, timed alone, does not do: sums over all ranks."""

    all_reduces_a_draft: int = 0  # 0 where it was not told: the drafter was whole on every rank
    tokens_of_a_draft: int = 0


class StepDocument(Written):
    """What the engine's own step benchmark writes."""

    schema_version: Literal[1]
    kind: Literal["step"]
    ddtree_version: str
    torch: str
    device: str
    pair: str  # what was timed: a model, or a target with its drafter
    rank_of: int | None = None  # one rank of so many; None: the whole model
    layers: int | None = None  # of the target, that were timed; None: all
    absent: Alone = Alone()
    weights: str
    dtype: str
    repeats: int
    copy_bytes_per_s: float
    steps: tuple[StepRow, ...]


class EngineRun(Word, extra="ignore"):
    """One mode over a list of prompts; of what was written, that which a step follows from."""

    name: str  # `c1 ddtree16 #0`
    decode_tok_s_each: float = Field(gt=0)  # of one stream, prefill left out
    accept: float | None


class EngineRuns(Word, extra="ignore"):
    """What the engine alone made, without HTTP (`repro/h200-smollm2/engine-*.json`)."""

    device: str
    dtype: str
    runs: tuple[EngineRun, ...]
