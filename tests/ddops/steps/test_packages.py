"""Packages from outside Python: only those that are missing, and a reason for each."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.errors import CheckError
from ddops.facts import apt
from ddops.spec.deployment import Deployment
from ddops.spec.load import load_box
from ddops.spec.observed import Apt, Gpu, Holder, Observed
from ddops.steps import packages
from tests.ddops.seen import observed

GPU = Gpu(
    index=0,
    name="NVIDIA H200",
    memory_mib=143771,
    driver="580.95.05",
    compute_capability="9.0",
    power_limit_w=700.0,
)
ALL = ("gcc", "aria2c", "libnuma.so.1", "apt-get")
OFFER = """cloud-init: status: done
'http://mirror/pool/main/g/gcc_12.2.0-3_amd64.deb' gcc_12.2.0-3_amd64.deb 5208 SHA256:abc
'http://mirror/pool/main/g/gcc-12_12.2.0-14_amd64.deb' gcc-12.deb 19300000 MD5Sum:def
holder:
"""


def wish(**changes: Any) -> Deployment:
    return load_box("local").deployment.model_copy(update=changes)


def names(want: Deployment, seen: Observed, *, pulls: bool = False) -> list[str]:
    return [need.package for need in packages.needs(want, seen, pulls=pulls)]


def on_gpu(**changes: Any) -> Observed:
    changes = {"python": {"headers": False}, "tools": ("apt-get",), **changes}
    return observed(gpus=[GPU], **changes)


@pytest.mark.parametrize(
    ("want", "seen", "pulls", "wanted"),
    [
        (wish(), observed(), False, []),
        (wish(), on_gpu(tools=ALL, python={"headers": True}), True, []),
        (wish(), on_gpu(), False, ["gcc", "python3.12-dev"]),
        (wish(), on_gpu(tools=("clang",)), False, ["python3.12-dev"]),
        (wish(), on_gpu(python={"headers": True}), False, ["gcc"]),
        (wish(device="cpu"), on_gpu(), False, []),
        (wish(), on_gpu(python={"headers": False, "torch_cuda": None}), False, []),
        (wish(engine="sglang"), observed(), False, ["libnuma1"]),
        (wish(), observed(), True, ["aria2"]),
    ],
)
def test_only_what_the_deployment_uses_and_the_box_lacks(
    *, want: Deployment, seen: Observed, pulls: bool, wanted: list[str]
) -> None:
    assert names(want, seen, pulls=pulls) == wanted


def test_the_headers_are_those_of_the_engines_own_interpreter() -> None:
    seen = on_gpu(tools=ALL, python={"headers": False, "version": "3.10.14"})
    assert names(wish(), seen) == ["python3.10-dev"]


def test_an_interpreter_that_is_not_the_distributions_has_no_package_of_headers() -> None:
    seen = on_gpu(python={"headers": False, "base": "/opt/python"})
    with pytest.raises(CheckError, match=r"below /opt/python has no Python\.h") as caught:
        names(wish(), seen)
    assert "python3.12-dev" in str(caught.value.hint)


def test_a_necessity_that_cannot_be_installed_is_refused_with_its_reason() -> None:
    needs = packages.needs(wish(), on_gpu(), pulls=True)
    with pytest.raises(CheckError, match=r"lacks gcc python3\.12-dev") as caught:
        packages.possible(needs, on_gpu())
    assert "`alice` may not become root" in caught.value.subject
    assert "Triton compiles a launcher" in str(caught.value.detail)
    with pytest.raises(CheckError, match="it has no apt"):
        packages.possible(needs, on_gpu(tools=(), system={"root": True}))


def test_a_convenience_that_cannot_be_installed_is_done_without() -> None:
    needs = packages.needs(wish(), observed(), pulls=True)
    assert packages.possible(needs, observed()) == []
    rooted = observed(tools=["apt-get"], system={"root": True})
    assert packages.possible(needs, rooted) == needs


def test_nothing_missing_is_nothing_to_do() -> None:
    assert packages.plan([], observed()) == []


def test_one_update_and_one_install_with_reason_size_and_time() -> None:
    seen = on_gpu(system={"root": True})
    needs = packages.needs(wish(), seen, pulls=False)
    update, install = packages.plan([(needs, apt.parse(OFFER))], seen)
    start = "sudo -n env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q"
    lock = "-o DPkg::Lock::Timeout=600"
    assert update.line == f"{start} {lock} update"
    assert install.line == (f"{start} {lock} install -y --no-install-recommends gcc python3.12-dev")
    assert install.why.startswith("gcc: Triton compiles a launcher")
    assert install.size == 19305208
    assert install.takes_s == pytest.approx(4.93, abs=0.01)
    assert install.timeout_s is not None
    assert install.timeout_s > packages.LOCK_WAIT_S


def test_root_needs_no_sudo_and_cloud_init_is_waited_for() -> None:
    seen = on_gpu(system={"root": True, "user": "root"})
    needs = packages.needs(wish(), seen, pulls=False)
    told = Apt(count=0, size=None, cloud_init=True, holder=None)
    first, *others = packages.plan([(needs, told)], seen)
    assert first.title == "wait for cloud-init"
    assert [one.sudo for one in others] == [False, False]
    assert (others[1].size, others[1].takes_s) == (None, None)


def test_a_convenience_is_installed_apart_and_may_fail() -> None:
    seen = on_gpu(system={"root": True, "user": "root"})
    parts = packages.apart(packages.needs(wish(), seen, pulls=True))
    told = Apt(count=1, size=1, cloud_init=False, holder=None)
    commands = packages.plan([(part, told) for part in parts], seen)
    assert [(one.title, one.may_fail) for one in commands] == [
        ("update apt's lists", False),
        ("install gcc python3.12-dev", False),
        ("install aria2", True),
    ]
    alone = packages.plan([(parts[1], told)], seen)
    assert [one.may_fail for one in alone] == [True, True]


def test_what_apt_offers_is_read() -> None:
    assert apt.parse(OFFER) == Apt(count=2, size=19305208, cloud_init=False, holder=None)
    fresh = "cloud-init: status: running\nE: Unable to locate package gcc\nholder:\n"
    fresh += "59 /usr/bin/python3 /usr/bin/unattended-upgrade \n"
    assert apt.parse(fresh) == Apt(
        count=0,
        size=None,
        cloud_init=True,
        holder=Holder(pid=59, program="/usr/bin/python3 /usr/bin/unattended-upgrade"),
    )


@pytest.mark.parametrize(
    ("said", "verdict", "hint"),
    [
        ("E: Unable to locate package gcc", "Unable to locate package gcc", "sources lack"),
        ("W: x\nE: Failed to fetch http://m/gcc.deb  404", "Failed to fetch", "its mirror"),
        ("E: dpkg was interrupted, you must", "dpkg was interrupted", "dpkg --configure -a"),
        ("E: Something else", "Something else", "set it right"),
    ],
)
def test_a_refusal_of_apt_gets_its_hint(said: str, verdict: str, hint: str) -> None:
    error = packages.refused(said)
    assert error is not None
    assert verdict in error.subject
    assert hint in str(error.hint)


def test_what_apt_did_not_say_is_no_refusal_of_apt() -> None:
    assert packages.refused("sudo: a password is required") is None


def test_a_lock_that_is_not_given_back_names_its_holder() -> None:
    error = packages.held(Holder(pid=59, program="unattended-upgr"), 600.0)
    assert "held by process 59 (unattended-upgr)" in error.subject
    assert "`ps -f 59`" in str(error.hint)
    assert error.exit_code == 11
