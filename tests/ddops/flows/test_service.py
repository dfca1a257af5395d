"""The seam for `ddops bench`: what is deployed, and another deployment in its place."""

from __future__ import annotations

from pathlib import Path

import httpx
import psutil
import pytest

from ddops.errors import ServiceError
from ddops.facts.look import look
from ddops.flows.lock import locked
from ddops.flows.service import current, facts_digest, log_tail, switch
from ddops.flows.site import Site
from ddops.host.local import Local
from ddops.spec.box import Box
from ddops.spec.deployment import Deployment
from ddops.spec.load import load_box
from tests.ddops.machine import Machine
from tests.ddops.seen import observed


@pytest.fixture
def box(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Box:
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    assert machine.ddops("deploy", "stand", "--yes").returncode == 0
    return load_box("stand", folder=machine.folder)


def autoregressive(deployment: Deployment) -> Deployment:
    decoding = deployment.decoding.model_copy(update={"mode": "ar"})
    return deployment.model_copy(update={"decoding": decoding})


def test_another_deployment_is_served_and_the_first_is_remembered(
    machine: Machine, box: Box
) -> None:
    host = Local()
    with locked(Site(host, box), "bench"):
        found = current(host, box)
        assert found == box.deployment
        served = switch(host, box, autoregressive(found))
        info = httpx.get(f"{served.base_url}/server_info").json()
        assert info["mode"] == "ar"
        assert psutil.pid_exists(served.pid)
        assert '"ar"' in served.unit
        assert "stand-in serves" in served.logs(50)
        assert current(host, box) == found
        drift = machine.status()["drift"]
        back = switch(host, box, found)
    assert drift == ["the unit on the box is not the one of the inventory"]
    assert httpx.get(f"{back.base_url}/server_info").json()["mode"] == "ddtree"
    assert machine.status()["drift"] == []


def test_a_switch_to_the_same_deployment_is_a_new_process(box: Box) -> None:
    first = switch(Local(), box, box.deployment)
    second = switch(Local(), box, box.deployment)
    assert first.pid != second.pid
    assert first.unit_sha256 == second.unit_sha256


def test_a_variant_that_dies_raises_with_the_log_and_can_be_followed_by_another(
    machine: Machine, box: Box
) -> None:
    machine.behave(exit=4, only_mode="ar")
    with pytest.raises(ServiceError, match="out of memory") as caught:
        switch(Local(), box, autoregressive(box.deployment))
    assert "gives up on purpose" in str(caught.value.detail)
    assert "gives up on purpose" in log_tail(Site(Local(), box), 20)
    assert switch(Local(), box, box.deployment).pid


def test_a_deploy_after_a_killed_bench_puts_the_box_right(machine: Machine, box: Box) -> None:
    switch(Local(), box, autoregressive(box.deployment))
    assert machine.ddops("deploy", "stand", "--yes").returncode == 0
    seen = machine.status()
    assert (seen["mode"], seen["drift"]) == ("ddtree", [])


def test_nothing_is_deployed_on_a_fresh_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDOPS_HOME", str(tmp_path))
    assert current(Local(), load_box("local")) is None


def test_the_facts_digest_ignores_what_changes_by_itself(box: Box) -> None:
    seen = observed()
    later = observed(
        system={"disk_free": 1, "memory_available": 2}, service={"pid": 8, "restarts": 3}
    )
    other = observed(python={"torch": "2.14.0"})
    assert facts_digest(seen) == facts_digest(later) != facts_digest(other)
    assert facts_digest(look(Local(), box)) == facts_digest(look(Local(), box))
