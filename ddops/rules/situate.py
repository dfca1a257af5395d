"""From the wish and what was seen to the names that rules ask about. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ddops.engines.base import Paths
from ddops.engines.options import Options
from ddops.rules.memory import need
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.hardware import Hardware
from ddops.spec.observed import Gpu, Holding, Observed
from ddops.spec.shape import DrafterShape, Method, Shape
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
    box, software, limits = seen.box, seen.software, deployment.limits
    first = box.gpus[0] if box.gpus else None
    shape, drafter = deployment.model.shape or seen.shape, _drafter(deployment, seen)
    memory = min(gpu.memory_mib for gpu in box.gpus) / 1024 if box.gpus else None
    use = _use(deployment, box)
    nodes = deployment.node.of if deployment.node else 1
    needed = need(deployment, shape, size=_size(deployment, box), gpu=memory, use=use * nodes)
    decoding, node = deployment.decoding, deployment.node
    address, _, port = node.leader.partition(":") if node else ("", "", "")
    return Situation(
        engine=deployment.engine,
        mode=decoding.mode,
        budget=decoding.budget,
        graphs=deployment.graphs != "off",
        parallel=deployment.parallel,
        nvls=deployment.nvls,
        context_length=limits.context_length,
        max_running_requests=limits.max_running_requests,
        prefill_chunk=limits.prefill_chunk,
        prefix_cache=limits.prefix_cache,
        drafter=paths.drafter,
        use=use,
        nodes=nodes,
        rank=node.rank if node else 0,
        leader=address or None,
        leader_port=int(port) if port else None,
        version=software.version,
        flags=frozenset(seen.options.flags) if seen.options else None,
        nccl=software.nccl,
        triton_ptxas=software.triton_ptxas,
        cuda_ptxas=software.cuda_ptxas,
        flash_attn_cute=software.flash_attn_cute,
        gpus=len(box.gpus),
        gpu=first.name if first else None,
        capability=first.compute_capability if first else None,
        mixed=len({(gpu.name, gpu.memory_mib) for gpu in box.gpus}) > 1,
        mig=any(state.mig for state in box.hardware.states),
        link=link_of(box.gpus, box.hardware),
        fabric=fabric_of(box.hardware),
        family=shape.family if shape else None,
        attention=shape.attention if shape else None,
        experts=shape.experts if shape else None,
        vision=shape.vision if shape else None,
        remote_code=shape.remote_code if shape else None,
        max_context=shape.max_context if shape else None,
        drafter_method=_method(deployment, drafter),
        depth=drafter.depth if drafter else None,
        yarn=drafter.yarn if drafter else None,
        memory=memory,
        weights=needed.weights,
        cache=needed.cache,
        reserve=needed.reserve,
    )


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


def _drafter(deployment: Deployment, seen: Seen) -> DrafterShape | None:
    return deployment.decoding.drafter_shape or seen.drafter


def _method(
    deployment: Deployment, drafter: DrafterShape | None
) -> Method | Literal["prompt-lookup"] | None:
    if deployment.decoding.drafter == "prompt-lookup":
        return "prompt-lookup"
    return drafter.method if drafter else None


def _size(deployment: Deployment, box: Observed) -> int | None:
    """Bytes of target and drafter; None while the target's are not known."""
    drafter = deployment.decoding.drafter
    target = _bytes(deployment.model.weights, box.model)
    drafts = _bytes(drafter, box.drafter) if isinstance(drafter, Weights) else None
    return target + (drafts or 0) if target else None


def _bytes(weights: Weights, held: Holding | None) -> int | None:
    if weights.size is not None:
        return weights.size
    if held is None:
        return None
    if held.offer:
        return sum(file.size or 0 for file in held.offer.files) or None
    return sum(one.size for one in held.artefacts) or None
