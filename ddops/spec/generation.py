"""What was deployed and has passed its gate. Written last, so what it names is proven."""

from __future__ import annotations

from ddops.spec.base import Word
from ddops.spec.deployment import Deployment


class Generation(Word):
    deployment: Deployment
    unit: str
    env_sha256: str
    unit_sha256: str
    deployed_at: str  # UTC, ISO 8601
    ddops_version: str
