"""Another load client, run here against a box's service on the load of a cell."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ddops.bench.clients import CLIENTS, PROMPTS, Errand, prompts
from ddops.bench.prompts import load_prompts, questions
from ddops.errors import BenchError, UsageError
from ddops.facts.look import way_to
from ddops.flows.course import terminable
from ddops.flows.crosscheck import Kept, adopt, good_cell
from ddops.flows.runs import chosen, load
from ddops.flows.service import current
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.host.local import Local
from ddops.spec.command import Run
from ddops.spec.record import Record
from ddops.spec.tool import Tool

_TAIL = 15  # lines of what a client said before it failed


@dataclass(frozen=True)
class Generator:
    """A client as it is installed here."""

    tool: Tool
    program: str
    tokenizer: str
    version: str | None  # where its file does not say


def measure(site: Site, folder: Path | None, cell: str, by: Generator, voice: Voice) -> Kept:
    """The cell's requests again, sent by another client; what it found is kept beside the cell."""
    stored = load(chosen(folder))
    record = good_cell(stored, cell)
    _refuse_another(site, record)
    client = CLIENTS[by.tool]
    asked = questions(load_prompts(record.load), record.load, record.cell.pace)
    with tempfile.TemporaryDirectory(prefix="ddops-") as place:
        errand = Errand(
            url=way_to(site.host, record.deployment.serving),
            model=record.deployment.model.name,
            tokenizer=by.tokenizer,
            load=record.load,
            pace=record.cell.pace,
            folder=place,
        )
        (Path(place) / PROMPTS).write_text(prompts(client, asked), "utf-8")
        argv = client.argv(by.program, errand)
        why = f"to measure {cell} with another client"
        with terminable(), voice.step(f"{by.tool}: {cell}"):
            done = Local().run(Run(argv=argv, why=why, timeout_s=None, cwd=place))
        found = Path(place) / client.result
        if not (done.ok and found.is_file()):
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_TAIL:]
            raise BenchError(
                f"{by.program} ended with exit code {done.code} and without a result",
                detail="\n".join(said) or None,
                hint="is it the program of this client, in the environment it is installed in?",
            )
        return adopt(stored, record, found, by.tool, by.version)


def _refuse_another(site: Site, record: Record) -> None:
    """The service must be what the cell measured, and nobody's secret goes on a command line."""
    name, deployment = site.box.name, record.deployment
    if record.cell.arrivals == "trace":
        raise UsageError(
            f"{record.cell.id} was sent at written times, which no other client reads",
            hint="name a cell with a concurrency or a rate",
        )
    if record.box != name or current(site.host, site.box) != deployment:
        raise UsageError(
            f"box `{name}` does not serve what {record.cell.id} measured, "
            f"{deployment.decoding.label} on box `{record.box}`",
            hint="deploy that first, or measure a matrix whose variant is what is deployed",
        )
    if site.service().state != "running":
        raise UsageError(f"the service of box `{name}` is stopped", hint=f"`ddops restart {name}`")
    if deployment.serving.api_key_file is not None:
        raise UsageError(
            "this service asks for a key, which would stand on the other client's command line",
            hint="run that client by hand, then `ddops crosscheck FILE`",
        )
