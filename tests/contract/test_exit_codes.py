"""How the engine ends is what a supervisor restarts by, and what the gate explains."""

from __future__ import annotations

from ddops.engines.ddtree import DDTREE
from ddops.flows.gate import MEANING, OWN_MEANING
from ddtree.server import exits

FINAL = {exits.BAD_ARGUMENTS, exits.CANNOT_LOAD, exits.OUT_OF_MEMORY, exits.PORT_IN_USE}


def test_what_would_end_the_same_way_again_is_not_restarted() -> None:
    assert set(DDTREE.final_exit_codes) == FINAL
    assert not {exits.DIED, exits.RANK_DIED} & set(DDTREE.final_exit_codes)


def test_the_gate_explains_every_way_to_end() -> None:
    assert {*MEANING, *OWN_MEANING} >= FINAL | {exits.DIED, exits.RANK_DIED}
