"""What the engine is asked to be. Frozen, torch-free, checked once at the rim.

Flags of `python -m ddtree serve` are generated from the fields of `EngineConfig`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["ar", "chain", "ddtree"]


@dataclass(frozen=True)
class RopeScaling:
    """How rotary frequencies are stretched past the positions of the first training.

    `linear` divides all of them by `factor`. `llama3` and `yarn` divide the slow ones, keep the
    fast ones and blend between; how fast one is counts its turns over `original_positions`.
    `table` divides each by its own number (a GGUF's `rope_freqs`).
    """

    kind: Literal["linear", "llama3", "yarn", "table"]
    factor: float = 1.0
    original_positions: int = 0
    slow: float = 1.0  # turns; at most so many: divided
    fast: float = 1.0  # turns; at least so many: kept
    whole_pairs: bool = True  # yarn: the blend begins and ends at a whole pair
    amplitude: float = 1.0  # what cos and sin are multiplied by: YaRN's attention factor
    divisors: tuple[float, ...] = ()  # [head_dim / 2]


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: a token leaves one latent and one rotated key, for all heads."""

    rank: int  # of the latent, from which each head's key and value are made
    rope_dim: int  # of the key that is rotated, and of a query's part that meets it
    nope_dim: int  # of a head's query and key that are not
    value_dim: int  # of a head
    query_rank: int | None  # None: queries are made from the hidden state itself
    scale: float  # what scores are multiplied by, YaRN's factor included
    interleaved: bool = True  # checkpoints rotate (0, 1), (2, 3), .. and not halves

    @property
    def cached_dim(self) -> int:
        return self.rank + self.rope_dim


@dataclass(frozen=True)
class SigmoidRouting:
    """DeepSeek-V3's router (`noaux_tc`): groups of experts are chosen first, then experts."""

    groups: int
    active_groups: int
    scaling: float  # of the weights


@dataclass(frozen=True)
class Experts:
    """The feed-forward of a mixture: a router picks `active` of `count` small ones a token."""

    count: int
    active: int
    intermediate_size: int  # of one expert
    normalised: bool  # the weights of the active ones are made to sum to one
    dense_layers: tuple[int, ...] = ()  # layers with one feed-forward for every token
    shared_size: int = 0  # of one more that every token passes through; 0: there is none
    sigmoid: SigmoidRouting | None = None  # None: a softmax over all


@dataclass(frozen=True)
class ModelShape:
    """A Llama-family decoder. Names follow the Hugging Face config of the family."""

    family: str  # key of models/registry.py
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_positions: int
    tied_embeddings: bool
    qk_norm: bool = False  # Qwen3 and DFlash drafters
    rope_scaling: RopeScaling | None = None
    experts: Experts | None = None
    latent: Latent | None = None  # then a head's size is that of its query, nope_dim + rope_dim

    @property
    def cached(self) -> tuple[int, int, int]:
        """What a token leaves in a layer's cache, [sides, heads, size]: keys and values, or one."""
        if self.latent is not None:
            return 1, 1, self.latent.cached_dim
        return 2, self.num_kv_heads, self.head_dim


@dataclass(frozen=True)
class Reach:
    """What the block of one drafter layer attends to."""

    window: int | None = None  # keys less than so many positions away; None: all
    causal: bool = False  # of the block only what is not behind a position


@dataclass(frozen=True)
class DrafterShape:
    """A DFlash drafter: `layers` as a ModelShape without embedding and head, plus its fusion."""

    layers: ModelShape
    block_size: int  # root and block_size - 1 masked positions
    mask_token_id: int
    target_layer_ids: tuple[int, ...]  # features are the outputs of these target layers
    reaches: tuple[Reach, ...] = ()  # one a layer; empty: every layer sees all

    @property
    def depth(self) -> int:
        return self.block_size - 1

    def reach(self, layer: int) -> Reach:
        return self.reaches[layer] if self.reaches else Reach()


POSITIVE = ("context_length", "max_running_requests", "page_size", "prefill_chunk", "tp", "ep")


@dataclass(frozen=True)
class EngineConfig:
    """Everything the engine needs to start. `drafter` is a folder, `bundled` or `prompt-lookup`."""

    model: str
    drafter: str | None = None
    mode: Mode = "ar"
    budget: int = 16  # tree nodes besides the root; the largest, when adaptive
    adaptive: bool = False  # choose each step's budget by expected tokens per second
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    context_length: int = 4096  # tokens, prompt and answer together
    max_running_requests: int = 8
    kv_tokens: int | None = None  # None: max_running_requests x context_length
    page_size: int = 16  # tokens
    prefill_chunk: int | None = None  # tokens; None: by the target and the device
    prefix_cache: bool = True  # keep blocks of prompts for requests that begin alike
    threads: int | None = None  # CPU threads; None: all cores, in equal parts to the ranks
    tp: int = 1  # ranks, a process each, that share every matrix
    ep: int = 1  # the same, but experts are whole: a rank has some of them
    graphs: Literal["auto", "off"] = "auto"  # auto: steps and prefills as graphs on CUDA

    def __post_init__(self) -> None:
        if self.mode != "ar" and self.drafter is None:
            raise ValueError(f"mode {self.mode!r} needs a drafter")
        if not 1 <= self.budget <= 256:
            raise ValueError(f"budget {self.budget} is outside 1..256")
        if self.adaptive and (self.mode != "ddtree" or self.drafter == "prompt-lookup"):
            raise ValueError("an adaptive budget needs mode ddtree and a drafter with weights")
        if self.tp > 1 and self.ep > 1:
            raise ValueError("tp and ep are two ways to share out one model: give one of them")
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be positive")

    @property
    def ranks(self) -> int:
        return max(self.tp, self.ep)
