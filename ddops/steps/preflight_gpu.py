"""Whether the GPUs of a box are all there, healthy, whole and joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ddops.spec.deployment import Deployment
from ddops.spec.hardware import GpuState
from ddops.spec.observed import Glimpse, Observed
from ddops.spec.verdict import Verdict, fail, ok, warn

_IDLE_MIB = 1024  # a driver's own context, a display
_BAD = ("ok", "warn", "fail")  # each worse than the one before


def judge(want: Deployment, seen: Glimpse) -> list[Verdict]:
    found = [driver(want, seen)]
    if seen.gpus:
        states = seen.hardware.states
        found += [together(seen), memory(states), whole(states), fabric(seen)]
    return found


def driver(want: Deployment, seen: Glimpse | Observed) -> Verdict:
    hardware, python = seen.hardware, seen.python
    if not seen.gpus:
        return _absent(want, seen)
    version, newest = seen.gpus[0].driver, hardware.cuda.driver
    if python is None or want.device == "cpu":
        return ok("driver", f"{version}, CUDA {newest or 'unknown'}")
    if python.torch and python.torch_cuda is None:
        said = f"torch {python.torch} of {python.executable} is built without CUDA"
        fix = "install torch's build for CUDA, or set `device: cpu`"
        if want.engine == "ddtree" and want.device == "auto":
            return warn("driver", f"{said}: the engine runs on the processor", fix)
        return fail("driver", said, fix)
    built = python.torch_cuda
    if built and newest and _major(built) > _major(newest):
        return fail(
            "driver",
            f"driver {version} runs CUDA up to {newest}, torch {python.torch} is built for {built}",
            f"install a driver for CUDA {_major(built)}, or torch built for CUDA {_major(newest)}",
        )
    return ok("driver", f"{version}, CUDA {newest or 'unknown'}, torch built for {built or 'none'}")


def together(seen: Glimpse) -> Verdict:
    """All there, and all alike."""
    count, hardware = len(seen.gpus), seen.hardware
    names = Counter(gpu.name for gpu in seen.gpus)
    said = ", ".join(f"{many} x {name}" for name, many in names.items())
    if hardware.nodes > count:
        fix = "`dmesg | grep -i xid` on the box says why; reset it, or reboot"
        return fail("GPUs", f"{count} of {hardware.nodes} answer: {said}", fix)
    if len(names) > 1:
        fix = "take GPUs of one kind: shards wait for the slowest and the smallest"
        return warn("GPUs", f"not all alike: {said}", fix)
    if hardware.on_bus > count:
        fix = "nothing, if this container was given only these; else reboot"
        return warn("GPUs", f"{said}, but {hardware.on_bus} are on the PCI bus", fix)
    if held := _held(seen):
        fix = "`nvidia-smi` names what holds it; end that, or its time and power are in the numbers"
        return warn("GPUs", f"{said}, in use already: {held}", fix)
    joined = {"alone": "", "mixed": ", joined partly by NVLink"}
    link = hardware.topology.joined
    return ok("GPUs", said + joined.get(link, f", joined by {link}"))


def _held(seen: Glimpse) -> str:
    """What somebody else's programs hold; not known while the service itself runs."""
    if seen.service is not None and seen.service.state in ("starting", "running"):
        return ""
    pairs = zip(seen.gpus, seen.hardware.states, strict=False)
    return ", ".join(
        f"GPU {gpu.index} holds {state.used_mib} of {gpu.memory_mib} MiB"
        for gpu, state in pairs
        if (state.used_mib or 0) > _IDLE_MIB
    )


def memory(states: Sequence[GpuState]) -> Verdict:
    """The worst of what the memory of any GPU has, and of which."""
    found = [_memory_of(one, index) for index, one in enumerate(states)]
    worst = max(found, key=lambda one: _BAD.index(one.state), default=None)
    if worst is None or worst.state == "ok":
        return ok("memory", "no errors")
    said = "; ".join(one.said for one in found if one.state == worst.state)
    return worst.model_copy(update={"said": said})


def _memory_of(one: GpuState, index: int) -> Verdict:
    gpu = f"GPU {index} ({one.bus})"
    reset = f"`sudo nvidia-smi --gpu-reset -i {index}` while nothing uses it, or reboot"
    if one.remapping == "failed":
        fix = f"have GPU {index} replaced; until then, do without it"
        return fail("memory", f"{gpu} has no spare memory rows left", fix)
    if one.uncorrected:
        said = f"{gpu}: {one.uncorrected} errors that ECC could not correct"
        return fail("memory", said, reset)
    if one.recovery:
        return fail("memory", f"{gpu}: its driver asks for a {one.recovery}", reset)
    if one.remapping == "pending":
        return warn("memory", f"{gpu} puts bad memory rows aside at its next reset", reset)
    if one.ecc is False:
        said = f"{gpu}: ECC is off, errors stay unseen"
        return warn("memory", said, "`sudo nvidia-smi -e 1`, then reboot")
    return ok("memory", f"{gpu}: no errors")


def whole(states: Sequence[GpuState]) -> Verdict:
    split = [str(index) for index, one in enumerate(states) if one.mig]
    if not split:
        return ok("MIG", "no GPU is split")
    said = f"GPU {', '.join(split)} is split into instances: the engine would see only one of them"
    return fail("MIG", said, f"`sudo nvidia-smi -i {','.join(split)} -mig 0`")


def fabric(seen: Glimpse) -> Verdict:
    """A GPU that has not joined cannot start CUDA at all, or only at a tenth of the speed."""
    hardware = seen.hardware
    fabrics = [one.fabric for one in hardware.states if one.fabric]
    apart = [one for one in fabrics if not one.ready]
    restart = (
        "`sudo systemctl restart nvidia-fabricmanager`, then `journalctl -u nvidia-fabricmanager`"
    )
    if apart:
        told = ", ".join(sorted({f"{one.state} {one.status or ''}".strip() for one in apart}))
        said = f"{len(apart)} of {len(hardware.states)} GPUs have not joined: {told}"
        return fail("fabric", f"{said}; the manager is {hardware.fabric_manager}", restart)
    if hardware.fabric_manager in ("stopped", "failed"):
        said = f"the fabric manager is {hardware.fabric_manager}: the next reset is not survived"
        return warn("fabric", said, restart)
    return ok("fabric", f"{len(fabrics)} GPUs have joined" if fabrics else "none")


def _absent(want: Deployment, seen: Glimpse | Observed) -> Verdict:
    hardware = seen.hardware
    if hardware.on_bus:
        said = f"{hardware.on_bus} GPUs are on the PCI bus, but no driver answers"
        if hardware.complaint:
            said += f": {hardware.complaint.splitlines()[0]}"
        fix = "install NVIDIA's driver for this kernel, then reboot"
        if "mismatch" in said:
            fix = "reboot: the driver was upgraded under a running one"
        return fail("driver", said, fix)
    if want.device == "cuda":
        return fail("driver", "there is no GPU", "set `device: auto`, or take a box with a GPU")
    return ok("driver", "no GPU: the engine runs on the processor")


def _major(version: str) -> int:
    return int(version.split(".")[0])
