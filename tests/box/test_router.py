"""SGLang's own router before replicas on two real boxes: ordered, proven, put back as one."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import yaml

from tests.box.box import Box, shared_paths
from tests.box.operator import Operator
from tests.box.site import SECRET, Site
from tests.ddops.answering import answering
from tests.ddops.machine import Done, run_here

REPLICA, ROUTER = 8421, 8420
SERVING = {"address": "0.0.0.0", "port": REPLICA, "api_key_file": "~/key"}


@contextmanager
def leading_to(address: str, port: int, at: str) -> Iterator[int]:
    """A port of this machine at `at`, for a box that reaches nothing else, that leads there."""

    class Way(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((address, port), 5) as there:
                back = threading.Thread(target=carry, args=(there, self.request))
                back.start()
                carry(self.request, there)
                back.join()

    server = socketserver.ThreadingTCPServer((at, 0), Way)
    with answering(server):
        yield server.server_address[1]


def carry(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def trio(equipped: Box, operator: Operator) -> Iterator[tuple[Site, Site]]:
    """Replicas `a` and `b`, each on its box, and `front` on the box of `a`: group `all`."""
    with Box(share=shared_paths()) as second:
        a = Site(operator, equipped, name="a", groups=("all",))
        b = Site(operator, second, name="b", groups=("all",))
        for site in (a, b):
            site.inventory(serving=SERVING)
        with leading_to(second.address, REPLICA, equipped.gateway) as port:
            there = f"http://{equipped.gateway}:{port}"
            front(a, {"a": f"http://127.0.0.1:{REPLICA}", "b": there})
            yield a, b


def front(site: Site, replicas: dict[str, str]) -> None:
    """The inventory of a router on the box of `site`."""
    path = site.operator.home / "inventories" / f"{site.name}.yaml"
    about = yaml.safe_load(path.read_text("utf-8"))
    about["deployment"] = {
        "engine": "sglang-router",
        "model": {"name": "stand-in"},
        "router": {"replicas": replicas},
        "serving": {"port": ROUTER, "api_key_file": "~/key"},
        "ready_timeout_s": 60,
    }
    path.with_name("front.yaml").write_text(yaml.safe_dump(about), "utf-8")


def ddops(site: Site, *words: str) -> Done:
    return run_here(words, site.operator.home, site.environment)


def outcomes(done: Done) -> dict[str, Any]:
    return {one["box"]: one for one in json.loads(done.stdout)}


def unit(site: Site, name: str) -> str:
    return site.box.must("cat", f"/etc/systemd/system/ddops-{name}.service")


def test_a_router_before_two_boxes_comes_last_and_is_put_back_with_neither(
    trio: tuple[Site, Site],
) -> None:
    a, b = trio
    done = ddops(a, "deploy", "all", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    told = outcomes(done)
    assert told["front"]["result"]["answer"]["text"] == "Paris is the capital of France."
    assert "sglang_router.launch_router" in unit(a, "front")
    assert SECRET not in unit(a, "front")
    pid = a.box.must("systemctl", "show", "--value", "-p", "MainPID", "ddops-front")
    units = (unit(a, "a"), unit(b, "b"))

    for site in (a, b):
        site.inventory(serving=SERVING, decoding={"mode": "ar"})
    b.box.write(
        "/root/.local/share/ddops/boxes/b/behave.json", json.dumps({"exit": 4, "only_mode": "ar"})
    )
    done = ddops(a, "deploy", "all", "--yes", "--json")
    assert done.returncode == 8
    told = outcomes(done)
    assert told["a"]["error"].endswith("generation 1 serves again")
    assert told["b"]["error"].endswith("generation 1 serves again")
    assert told["front"]["error"].startswith("not started")
    assert (unit(a, "a"), unit(b, "b")) == units
    assert a.box.must("systemctl", "show", "--value", "-p", "MainPID", "ddops-front") == pid
    ready = ddops(a, "status", "all", "--json")
    assert ready.returncode == 0, ready.stdout
