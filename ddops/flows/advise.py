"""The engine's whole command line for one box: the wish, and what the rules make of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddops.engines import options as listed
from ddops.engines.base import Engine, Paths
from ddops.engines.options import Options
from ddops.engines.table import ENGINES
from ddops.errors import CheckError, HostError
from ddops.facts import shape, software
from ddops.flows.site import Site
from ddops.host.base import Host
from ddops.rules.combine import combine
from ddops.rules.situate import Seen, situate
from ddops.rules.weigh import Advice, table, weigh
from ddops.spec.argument import Argument, Setting
from ddops.spec.deployment import Deployment
from ddops.spec.observed import Holding, Observed
from ddops.spec.place import Place
from ddops.spec.situation import Situation
from ddops.spec.software import Software
from ddops.spec.source import OnBox, parse_source


@dataclass(frozen=True)
class Advised:
    engine: Engine
    arguments: tuple[Argument, ...]
    settings: tuple[Setting, ...]
    situation: Situation  # what the rules were asked about
    advice: Advice
    software: Software
    options: Options | None  # None: neither the engine nor a recorded release says

    def check(self) -> None:
        """Raises `CheckError` when a rule forbids the wish, or the engine lacks an option."""
        if self.advice.broken:
            first = self.advice.broken[0]
            more = [f"and rule `{one.rule}`: {one.why}" for one in self.advice.broken[1:]]
            raise CheckError(
                f"the wish breaks rule `{first.rule}`: {first.why}",
                detail="\n".join(more) or None,
                hint=f"{first.instead}; or go on with `--override {first.rule}`",
            )
        if self.options:
            self.options.check(self.arguments)


@dataclass(frozen=True)
class Asked:
    """What the box said of itself: the same for every deployment of one engine and one model."""

    engine: Engine
    paths: Paths
    known: Seen


def advise(site: Site, deployment: Deployment, seen: Observed) -> Advised:
    """Refuses nothing: a status must be able to name a unit that a rule would forbid today."""
    return advised(site, deployment, ask(site, deployment, seen))


def ask(site: Site, deployment: Deployment, seen: Observed) -> Asked:
    engine = ENGINES[deployment.engine]
    paths = Paths(model=given(seen.model), drafter=given(seen.drafter) if seen.drafter else None)
    installed = look_software(site.host, site.place.engine_python, engine)
    known = Seen(
        box=seen,
        software=installed,
        options=_options(site, engine, installed),
        shape=shape.parse(_config(site.host, paths.model)),
        drafter=shape.parse_drafter(_config(site.host, paths.drafter)),
    )
    return Asked(engine, paths, known)


def advised(site: Site, deployment: Deployment, asked: Asked) -> Advised:
    """Asks the box nothing more."""
    engine, paths, known = asked.engine, asked.paths, asked.known
    situation = situate(deployment, known, paths)
    rules = () if deployment.router else table(Path.cwd())
    advice = weigh(rules, situation, deployment.overrides)
    arguments, broken = combine(engine.arguments(deployment, paths), advice, deployment)
    advice = advice.model_copy(update={"broken": (*advice.broken, *broken)})
    return Advised(
        engine=engine,
        arguments=arguments,
        settings=(*_folders(site.place, engine), *advice.settings),
        situation=situation,
        advice=advice,
        software=known.software,
        options=known.options,
    )


def given(holding: Holding) -> str:
    """What the engine is given. A path of the user's may be relative: the box made it absolute."""
    if isinstance(parse_source(holding.source), OnBox) and holding.artefacts:
        return holding.artefacts[0].path
    return holding.root


def _folders(place: Place, engine: Engine) -> list[Setting]:
    cache = place.caches
    kept = "compiled kernels survive a restart, in a folder that the hardened unit may write"
    found = [
        ("PYTHONUNBUFFERED", "1", "the log shows a line when it is written"),
        ("TORCHINDUCTOR_CACHE_DIR", f"{cache}/inductor", kept),
        ("TRITON_CACHE_DIR", f"{cache}/triton", kept),
        ("XDG_CACHE_HOME", cache, kept),
    ]
    if engine.caches_at_home:
        found.append(("HOME", cache, f"{kept}: FlashInfer and others go by the home folder only"))
    return [
        Setting(name=name, value=value, why=why, source="ddops", sure="documented")
        for name, value, why in found
    ]


def look_software(host: Host, python: str, engine: Engine) -> Software:
    result = host.run(software.command(python, engine))
    if not result.ok:
        raise HostError(
            f"looking at the engine's Python failed with exit code {result.code}",
            detail=result.stderr.strip() or None,
        )
    return software.parse(result.stdout)


def _options(site: Site, engine: Engine, installed: Software) -> Options | None:
    """Of the engine itself, else of the nearest recorded release that is not newer."""
    if installed.installed:
        said = site.host.run(software.help_of(site.place.engine_python, engine))
        origin = f"{engine.name} {installed.version or 'of unknown version'}"
        found = listed.parse(said.stdout, origin) if said.ok else None
        if found:
            return found
    return listed.recorded(engine.name, installed.version)


def _config(host: Host, path: str | None) -> bytes | None:
    """The config of a folder of weights; a single file has none beside it."""
    if path is None or path.endswith(".gguf"):
        return None
    return host.read(f"{path}/config.json")
