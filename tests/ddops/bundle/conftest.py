"""A whole bundle, for what is only to be seen in one."""

from __future__ import annotations

from tests.ddops.flows.conftest import bundle as bundle
