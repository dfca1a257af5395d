"""Every place where an environment names its folder follows it to another one."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from ddops.spec.environment import Manifest
from ddops.steps.relocate import move, moved, rewritten
from tests.ddops.environments import SITE, file, manifest, tree

NEW = "/srv/envs/1"
RECORD = f"{SITE}/greet-1.0.dist-info/RECORD"


def text(path: str, content: str) -> dict[str, str]:
    return {"path": path, "text": content}


def row_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def seen(*texts: dict[str, str], **changes: Any) -> Manifest:
    trees = (
        tree("", "/old/venv", "/link/venv"),
        tree("outside/python", "/opt/python"),
        tree("outside/near", "/old"),
    )
    return manifest(texts=texts, trees=trees, **changes)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("bin/pip", "#!/old/venv/bin/python3\nx", f"#!{NEW}/bin/python3\nx"),
        ("bin/long", "#!/bin/sh\n'''exec' \"/old/venv/bin/python\" \"$0\"\n' '''", None),
        ("bin/activate", "VIRTUAL_ENV=/link/venv\n", f"VIRTUAL_ENV={NEW}\n"),
        (f"{SITE}/near.pth", "/old/src\n", f"{NEW}/outside/near/src\n"),
        (f"{SITE}/__editable___x_finder.py", "{'x': '/old/x'}", f"{{'x': '{NEW}/outside/near/x'}}"),
        (f"{SITE}/n.dist-info/direct_url.json", '"file:///old"', f'"file://{NEW}/outside/near"'),
    ],
)
def test_what_names_the_old_folder_names_the_new_one(path: str, old: str, new: str | None) -> None:
    got = move(seen(text(path, old)), NEW).texts[path]
    assert got == (new or old.replace("/old/venv", NEW))


def test_a_folder_whose_name_only_begins_alike_is_left_alone() -> None:
    trees = manifest().trees
    for other in ("/old/venv2/bin", "/old/venv-x", "/old/venv.bak", "/opt/python3"):
        assert rewritten(other, trees, NEW) == other


def test_the_configuration_keeps_its_home_and_forgets_how_it_was_made() -> None:
    old = "home = /opt/python/bin\nversion = 3.11.7\nexecutable = /opt/python/bin/python3.11\n"
    old += "command = /opt/python/bin/python3 -m venv /old/venv\n"
    new = move(seen(text("pyvenv.cfg", old)), NEW).texts["pyvenv.cfg"]
    assert new == f"home = {NEW}/outside/python/bin\nversion = 3.11.7\n"


def test_the_distributions_interpreter_stays_where_it_is() -> None:
    found = manifest(
        texts=(text("pyvenv.cfg", "home = /usr/bin\n"),), trees=(tree("", "/old/venv"),)
    )
    assert move(found, NEW).texts == {}


def test_absolute_links_into_a_folder_that_moves_follow_it() -> None:
    links = (
        {"path": "bin/python", "target": "python3"},
        {"path": "bin/python3", "target": "/opt/python/bin/python3"},
        {"path": "bin/tool", "target": "/usr/bin/tool"},
    )
    targets = [link.target for link in move(seen(links=links), NEW).links]
    assert targets == ["python3", f"{NEW}/outside/python/bin/python3", "/usr/bin/tool"]


def package(**changes: Any) -> dict[str, Any]:
    told = {"name": "greet", "version": "1.0", "record": RECORD, "built_here": False}
    return {**told, "modules": ("greet",), **changes}


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_record_follows_what_was_rewritten_and_nothing_else(ends: str) -> None:
    script = "#!/old/venv/bin/python\n"
    rows = [
        f"../../../bin/greet,{row_hash(script)},{len(script)}",
        "greet/a.py,sha256=x,3",
        f"{RECORD},,",
    ]
    record = ends.join(rows) + ends
    found = seen(text("bin/greet", script), text(RECORD, record), packages=(package(),))
    change = move(found, NEW)
    new = change.texts["bin/greet"]
    first, *rest = change.texts[RECORD].split(ends)
    assert first == f"../../../bin/greet,{row_hash(new)},{len(new)}"
    assert rest == [*rows[1:], ""]


def test_a_script_that_was_patched_before_stays_visible_as_a_patch() -> None:
    row = f"../../../bin/greet,{row_hash('as installed')},12\n"
    texts = (text("bin/greet", "#!/old/venv/bin/python\n# patched"), text(RECORD, row))
    assert RECORD not in move(seen(*texts, packages=(package(),)), NEW).texts


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("outside/python/bin/python3.11", "/opt/python/lib", "$ORIGIN/../lib"),
        ("lib/x.so", "/old/venv/lib", "$ORIGIN"),
        ("lib/a/x.so", "/old/venv/lib:/usr/lib", "$ORIGIN/..:/usr/lib"),
        ("lib/x.so", "/somewhere/else", None),
        ("lib/a/b/c/x.so", "/old/lib", None),  # the new one would not fit
        ("outside/python/lib/x.so", "/opt/python/lib", None),  # loaded by then
    ],
)
def test_an_rpath_becomes_relative_where_its_folder_moves_and_the_text_fits(
    path: str, old: str, new: str | None
) -> None:
    found = seen(binaries=({"path": path, "glibc": None, "rpath": old},))
    assert [(one.old, one.new) for one in move(found, NEW).rpaths] == ([(old, new)] if new else [])


def test_the_environment_there_is_described_as_it_lies_there() -> None:
    script = text("bin/pip", "#!/old/venv/bin/python3\n")
    old = seen(script, files=(file("bin/pip"), file("lib/x.so")), base="/opt/python")
    change = move(old, NEW)
    now = moved(old, NEW, change, {"lib/x.so": "b" * 64})
    new = change.texts["bin/pip"]
    assert now.files[0].sha256 == hashlib.sha256(new.encode()).hexdigest()
    assert now.files[0].size == len(new)
    assert now.files[1].sha256 == "b" * 64
    assert (now.prefix, now.base, now.origin) == (NEW, f"{NEW}/outside/python", old.identity)
