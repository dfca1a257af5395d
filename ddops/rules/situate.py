"""From the wish and what was seen to the names that rules ask about. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddops.engines.base import Paths
from ddops.engines.options import Options
from ddops.rules.memory import Models, need
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.hardware import Hardware
from ddops.spec.observed import Gpu, Holding, Observed
from ddops.spec.shape import DrafterShape, Shape
from ddops.spec.situation import Fabric, Link, Situation
from ddops.spec.software import Software


@dataclass(frozen=True)
class Seen:
    """What was seen of a box, with the engine's part that no other verb needs."""

    box: Observed
    software: Software
    options: Options | None
    shape: Shape | None
    drafter: DrafterShape | None


def situate(deployment: Deployment, seen: Seen, paths: Paths) -> Situation:
    use = _use(deployment, seen.box)
    return Situation(
        **_wish(deployment),
        **_engine(seen),
        **_box(seen.box),
        **_models(deployment, seen),
        **_memory(deployment, seen, use),
        drafter=paths.drafter,
        use=use,
    )


def _wish(deployment: Deployment) -> dict[str, Any]:
    decoding, limits, node = deployment.decoding, deployment.limits, deployment.node
    address, _, port = node.leader.partition(":") if node else ("", "", "")
    return {
        "engine": deployment.engine,
        "mode": decoding.mode,
        "budget": decoding.budget,
        "adaptive": decoding.adaptive,
        "device": deployment.device,
        "threads": deployment.threads,
        "kv_tokens": limits.kv_tokens,
        "graphs": deployment.graphs != "off",
        "parallel": deployment.parallel,
        "nvls": deployment.nvls,
        "context_length": limits.context_length,
        "max_running_requests": limits.max_running_requests,
        "prefill_chunk": limits.prefill_chunk,
        "prefix_cache": limits.prefix_cache,
        "nodes": node.of if node else 1,
        "rank": node.rank if node else 0,
        "leader": address or None,
        "leader_port": int(port) if port else None,
    }


def _engine(seen: Seen) -> dict[str, Any]:
    flags = frozenset(seen.options.flags) if seen.options else None
    return {**seen.software.model_dump(exclude={"installed"}), "flags": flags}


def _box(box: Observed) -> dict[str, Any]:
    first = box.gpus[0] if box.gpus else None
    return {
        "gpus": len(box.gpus),
        "gpu": first.name if first else None,
        "capability": first.compute_capability if first else None,
        "mixed": len({(gpu.name, gpu.memory_mib) for gpu in box.gpus}) > 1,
        "mig": any(state.mig for state in box.hardware.states),
        "link": link_of(box.gpus, box.hardware),
        "fabric": fabric_of(box.hardware),
    }


def _models(deployment: Deployment, seen: Seen) -> dict[str, Any]:
    """What the inventory pins goes before what lies on the box."""
    shape = deployment.model.shape or seen.shape
    drafter = deployment.decoding.drafter_shape or seen.drafter
    method: str | None = drafter.method if drafter else None
    if deployment.decoding.drafter == "prompt-lookup":
        method, drafter = "prompt-lookup", None
    names = ("family", "attention", "experts", "vision", "remote_code", "max_context")
    return {
        **{name: getattr(shape, name) if shape else None for name in names},
        "drafter_method": method,
        "depth": drafter.depth if drafter else None,
        "yarn": drafter.yarn if drafter else None,
    }


def _memory(deployment: Deployment, seen: Seen, use: int) -> dict[str, Any]:
    memory = min((gpu.memory_mib for gpu in seen.box.gpus), default=0) / 1024 or None
    shared = use * (deployment.node.of if deployment.node else 1)
    models = Models(
        shape=deployment.model.shape or seen.shape,
        drafter=deployment.decoding.drafter_shape or seen.drafter,
        sizes=_sizes(deployment, seen.box),
    )
    needed = need(deployment, models, gpu=memory, use=shared)
    return {"memory": memory, **needed.model_dump()}


def _use(deployment: Deployment, box: Observed) -> int:
    """The bundled engine takes one GPU, the others all of them, unless the wish says how many."""
    if deployment.gpus is not None:
        return deployment.gpus
    return min(len(box.gpus), 1) if deployment.engine == "ddtree" else len(box.gpus)


def link_of(gpus: Sequence[Gpu], hardware: Hardware) -> Link:
    if len(gpus) < 2:
        return "alone"
    joined = hardware.topology.joined
    return "unknown" if joined == "alone" else joined  # several GPUs, and no table of links


def fabric_of(hardware: Hardware) -> Fabric:
    """Ready when every GPU has joined it."""
    states = [state.fabric for state in hardware.states]
    if not any(states):
        return "absent"
    if all(one is not None and one.ready for one in states):
        return "ready"
    joining = any(one is not None and one.state == "in progress" for one in states)
    return "starting" if joining else "failed"


def _sizes(deployment: Deployment, box: Observed) -> tuple[int | None, int | None]:
    """Bytes of target and drafter."""
    drafter = deployment.decoding.drafter
    target = _bytes(deployment.model.weights, box.model)
    return target, _bytes(drafter, box.drafter) if isinstance(drafter, Weights) else None


def _bytes(weights: Weights, held: Holding | None) -> int | None:
    if weights.size is not None:
        return weights.size
    if held is None:
        return None
    if held.offer:
        return sum(file.size or 0 for file in held.offer.files) or None
    return sum(one.size for one in held.artefacts) or None
