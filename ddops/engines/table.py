"""The engines by name."""

from __future__ import annotations

from ddops.engines.base import Engine
from ddops.engines.ddtree import DDTREE
from ddops.engines.router import SGLANG_ROUTER, VLLM_ROUTER
from ddops.engines.sglang import SGLANG
from ddops.engines.vllm import VLLM
from ddops.spec.deployment import EngineName

ENGINES: dict[EngineName, Engine] = {
    one.name: one for one in (DDTREE, SGLANG, VLLM, SGLANG_ROUTER, VLLM_ROUTER)
}
