"""From what was found on a box to a first inventory: it loads as it is, and says what to change."""

from __future__ import annotations

from collections import Counter

import yaml

from ddops.render.template import fill
from ddops.spec.box import Box
from ddops.spec.found import Found


def render_inventory(box: Box, found: Found) -> str:
    """`box`: how it is reached, and the deployment to begin with."""
    deployment = box.deployment.model_dump(mode="json", exclude_unset=True)
    own = next((one.python for one in found.installations if one.engine == "ddtree"), None)
    return fill(
        "inventory.yaml.j2",
        name=box.name,
        reach=box.reach,
        found=found,
        gpus=_kinds(found),
        python=own,
        deployment=yaml.safe_dump({"deployment": deployment}, sort_keys=False),
    )


def _kinds(found: Found) -> list[str]:
    """`8 x NVIDIA B300 SXM6 AC, 275040 MiB, sm_103`, one line a kind."""
    kinds = Counter((one.name, one.memory_mib, one.compute_capability) for one in found.gpus)
    return [
        f"{count} x {name}, {memory} MiB, sm_{capability.replace('.', '')}"
        for (name, memory, capability), count in kinds.items()
    ]
