"""The place of one environment on a box: what it lacks, how it is built, switched to, cleaned."""

from __future__ import annotations

import json

from ddops.errors import CheckError, StepError
from ddops.facts import gpu, landing
from ddops.facts.look import look_system
from ddops.flows.site import Site
from ddops.host.stream import STORE, End
from ddops.spec.command import Put, Run
from ddops.spec.environment import NOTE, Bringing, Landing, Manifest, Piece
from ddops.steps import environment as steps
from ddops.steps import relocate

_SWITCH = 'ln -sfn "$1" "$2.new" && mv -fT "$2.new" "$2"'

# Kept: the one in use, the last three, and those that a kept deployment runs from.
_PRUNE = """
cd "$1" || exit 0
rm -rf .stage
use=$(basename "$(readlink "$2")")
kept=0
for note in $(ls -t */"$4" 2>/dev/null); do
  id=${note%%/*} kept=$((kept + 1))
  [ "$id" = "$use" ] || [ $kept -le 3 ] && continue
  grep -qsF "/envs/$id/" "$3"/*/generations.json || rm -rf "$id"
done
for id in *; do
  [ -e "$id/$4" ] || rm -rf "$id" # was never finished
done
"""


class Arrival:
    def __init__(self, site: Site, seen: Manifest) -> None:
        self.site, self.seen, self.place = site, seen, site.place
        self.landing = look_landing(site)
        self.lies: Manifest | None = None  # as it lies there, once it was assembled
        self.packages: list[Run] = []  # without them it could not be proven
        self._distrusted: list[str] = []

    @property
    def name(self) -> str:
        return self.seen.identity[:12]

    @property
    def path(self) -> str:
        return f"{self.place.environments}/{self.name}"

    @property
    def end(self) -> End:
        return End(self.site.host, "python3")

    @property
    def stage(self) -> str:
        """One for all: what came for an environment that was changed since is not sent again."""
        return f"{self.place.environments}/.stage"

    @property
    def there(self) -> bool:
        return self.name in self.landing.present

    @property
    def in_use(self) -> bool:
        return self.there and self.landing.points_to == self.name

    @property
    def codec(self) -> str:
        return "zstd" if self.seen.zstd and self.landing.zstd else "plain"

    @property
    def switch(self) -> Run:
        """The link changes at once: nobody ever sees none, or half of one."""
        return Run(
            argv=("sh", "-c", _SWITCH, "sh", f"envs/{self.name}", self.place.environment),
            why="the environment that was proven takes the place of the one before",
            title=f"switch to environment {self.name}",
        )

    def coming(self, source: str) -> Bringing:
        lacking = [] if self.there else self.wanted()
        size = sum(one.length for one in lacking)
        packages = tuple(self.packages)
        return Bringing(source=source, path=self.path, size=size, packages=packages)

    def check(self) -> None:
        """Raises `CheckError` with every reason."""
        host = self.site.host
        machine = look_system(host, self.place)
        gpus = gpu.parse(host.run(gpu.COMMAND).stdout)
        reasons = steps.unfit(self.seen, self.landing, machine, gpus)
        if self.landing.python and not self.there:
            large = steps.too_large(self.wanted(), machine.disk_free)
            reasons += [large] if large else []
        if reasons:
            raise CheckError(
                f"this environment would not run on box `{self.site.box.name}`",
                detail="\n".join(f"- {reason.what}" for reason in reasons),
                hint=next((reason.fix for reason in reasons if reason.fix), None),
            )

    def wanted(self) -> list[Piece]:
        """What the box lacks."""
        files = sorted({(file.sha256, file.size) for file in self.seen.files})
        asked = json.dumps({"files": files, "distrusted": self._distrusted})
        said = self._store("lacks", self.place.environments, stdin=asked)
        return steps.pieces(self.seen, json.loads(said))

    def assemble(self) -> bool:
        """False: some files were not what they say, and are wanted again."""
        change = relocate.move(self.seen, self.path)
        orders = {
            "distrusted": self._distrusted,
            "files": [(f.path, f.sha256, f.size, f.mode, f.mtime_ns) for f in self.seen.files],
            "links": [(link.path, link.target) for link in change.links],
            "texts": change.texts,
            "rpaths": [(one.path, one.old, one.new) for one in change.rpaths],
        }
        said = json.loads(self._store("assemble", self.path, stdin=json.dumps(orders)))
        self._distrusted += said["bad"]
        self.lies = relocate.moved(self.seen, self.path, change, said["changed"])
        return not said["bad"]

    def compile(self) -> None:
        """A hardened service may not write there. That some files are no Python is no fault."""
        argv = (f"{self.path}/bin/python", "-m", "compileall", "-q", "-j", "0", self.path)
        self.site.host.run(Run(argv=argv, why="compile to bytecode", timeout_s=None))

    def note(self) -> None:
        if self.lies:
            flush = Run(argv=("sync", "-f", self.path), why="nothing of it is lost", timeout_s=None)
            self.site.host.apply(flush)
            path, why = f"{self.path}/{NOTE}", "what it was when it was proven"
            self.site.host.apply(Put(path=path, text=self.lies.model_dump_json(), why=why))

    def prune(self) -> None:
        places = (self.place.environments, self.place.environment, f"{self.place.root}/boxes")
        argv = ("sh", "-c", _PRUNE, "sh", *places, NOTE)
        self.site.host.run(Run(argv=argv, why="remove what nothing runs from any more"))

    def _store(self, verb: str, *words: str, stdin: str) -> str:
        argv = ("python3", "-I", "-c", STORE, verb, self.stage, *words)
        run = Run(argv=argv, why="files of the environment", stdin=stdin, timeout_s=3600.0)
        said = self.site.host.run(run)
        if not said.ok:
            raise StepError(
                f"the environment cannot be put on box `{self.site.box.name}`",
                detail=said.stderr.strip()[-2000:] or None,
                hint="set it right, then run the same command again: what has come is kept",
            )
        return said.stdout


def look_landing(site: Site) -> Landing:
    return landing.parse(site.host.run(landing.command(site.place)).stdout)
