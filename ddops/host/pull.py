"""Bring files of a hub repository to a host: many connections each, checked, only what is missing.

This machine asks the hub where the bytes are and drives; the host downloads. Large files come by
aria2, the few that the hub serves itself one by one; without aria2 all come by huggingface_hub.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ddops.errors import WeightsError
from ddops.host import aria2, hub, shards
from ddops.host.base import Host, Progress
from ddops.host.patience import TRIES, Again, pause
from ddops.spec.command import Fetch, Pull, Put, Result, Run
from ddops.spec.manifest import beside, settled
from ddops.spec.observed import Offered

_POLL_S: Final = 0.3
_DAMAGED: Final = 91
_UNREADABLE: Final = 3  # tries in a row until a control file is not believed in any more
_NO_PROGRAM: Final = 127
_SENT = Path(__file__).parent
_HUB_PYTHON = _SENT.joinpath("box_hub.py").read_text("utf-8")

# $1: where the file was staged, or nothing; $5: git's digest. The rest is `box_settle.sh`.
_SETTLE = r"""
part=$2.part
[ -z "$1" ] || { mkdir -p "$(dirname "$2")" && mv -fT "$1" "$part"; } || exit
if [ -n "$5" ]; then
  blob=$({ printf 'blob %s\0' "$(stat -c %s "$part")"; cat "$part"; } | sha1sum)
  [ "${blob%% *}" = "$5" ] || { rm -f "$part"; echo "its git digest is ${blob%% *}" >&2; exit 91; }
fi
""" + _SENT.joinpath("box_settle.sh").read_text("utf-8")
# Of a full disk aria2 says that it stopped, or that it could not flush.
_ROOM = """
mkdir -p "$1" && stat -f -c '%a %S' "$1"
stat -c %b "$2" 2>/dev/null || echo 0
"""
_DROP = 'rm -f "$1.part" "$1.part.aria2"'
_ARRIVED = 'du -sb "$1" 2>/dev/null | cut -f 1'
_TIDY = 'rm -rf "$1"; rmdir "${1%/*}" 2>/dev/null; true'


def pull(host: Host, command: Pull, progress: Progress) -> None:
    """Raises `WeightsError`; whatever happens, a later call goes on where this one stopped."""
    work = _Work(host, command, progress)
    if aria2.installed(host):
        work.by_aria2()
    else:
        work.by_hub(command.files)
    work.sh(_TIDY, work.staging)
    shards.check(host, command.folder)


Come = Callable[[Offered], str | None]
"""Brings a file, returns where it was staged: "" at its `.part`, None when it has to come later."""


@dataclass
class _Work:
    host: Host
    want: Pull
    progress: Progress
    have: dict[str, float] = field(default_factory=dict)  # bytes that are there, by file
    refused: set[str] = field(default_factory=set)  # came damaged, or from nearby not at all
    later: list[Offered] = field(default_factory=list)  # only the hub's own client can fetch them
    stop: threading.Event = field(default_factory=threading.Event)

    def by_aria2(self) -> None:
        with aria2.daemon(self.host, self.want.folder, self.stop) as daemon:
            self._together(
                self.want.files,
                lambda file: self._large(file, daemon) if file.sha256 else self._small(file),
            )
        if self.later:
            self.by_hub(self.later)

    def by_hub(self, files: Sequence[Offered]) -> None:
        """Files arrive whole before they are checked; what was whole stays for the next try."""
        with self._watched():
            self._download(files)
        self._together(files, self._staged)

    @property
    def staging(self) -> str:
        return f"{self.want.folder}/.cache/ddops/hub"

    def sh(self, script: str, *words: str) -> Result:
        argv = ("sh", "-c", script, "sh", *words)
        return self.host.run(Run(argv=argv, why=self.want.why, timeout_s=None))

    def _together(self, files: Sequence[Offered], come: Come) -> None:
        """Several at once, small ones first. The first that fails ends the others."""
        pool = ThreadPoolExecutor(aria2.FILES)
        ordered = sorted(files, key=lambda file: file.sha256 is not None)
        try:
            left = {pool.submit(self._bring, file, come) for file in ordered}
            while left:
                ended, left = wait(left, timeout=_POLL_S, return_when=FIRST_EXCEPTION)
                self.progress(sum(self.have.values()), self.want.size)
                for job in ended:
                    job.result()
        finally:
            self.stop.set()
            pool.shutdown(cancel_futures=True)

    def _bring(self, file: Offered, come: Come) -> None:
        """Twice, if it must be: the part of an earlier run may be damaged by no fault of this."""
        path = f"{self.want.folder}/{file.name}"
        sums = (file.sha256 or "", str(file.size or ""), file.blob or "")
        for _ in range(2):
            staged = come(file)
            if staged is None:
                self.later.append(file)
                return
            said = self.sh(_SETTLE, staged, path, *sums)
            if said.code != _DAMAGED:
                break
            self.refused.add(file.name)
        if not said.ok:
            raise self._not_settled(file, said)
        self._note(file, path, said.stdout)
        self.have[file.name] = file.size or 0

    def _small(self, file: Offered) -> str:
        """From the hub itself, with the token if there is one."""
        path = f"{self.staging}/{file.name}"
        self.host.apply(Fetch(url=self._url(file), path=path, why=self.want.why, size=file.size))
        return path

    def _staged(self, file: Offered) -> str:
        if file.name in self.refused:
            self._download([file])
        return f"{self.staging}/{file.name}"

    def _large(self, file: Offered, daemon: aria2.Daemon) -> str | None:
        """A signed address that ran out, or a server that stalls: the hub gives a new one."""
        tries = 0
        while True:
            before = self.have.get(file.name, 0)
            try:
                part = f"{file.name}.part"
                daemon.get(self._where(file), part, partial(self._tell, file.name))
                return ""
            except aria2.NotServed:
                return None
            except aria2.NoWriting:
                self._must_fit(file)
                raise
            except Again as error:
                self._must_fit(file)
                self.refused.add(file.name)
                tries = 0 if self.have.get(file.name, 0) > before else tries + 1
                if tries == TRIES:
                    raise self._given_up(file, error) from None
                unreadable = isinstance(error, aria2.Aborted) and tries == _UNREADABLE
                if unreadable or isinstance(error, aria2.NoResume):
                    self.sh(_DROP, f"{self.want.folder}/{file.name}")
                if self.stop.wait(pause(tries, error)):
                    raise aria2.Stopped from None

    def _must_fit(self, file: Offered) -> None:
        folder = self.want.folder
        said = self.sh(_ROOM, folder, f"{folder}/{file.name}.part").stdout
        units, unit, blocks = map(int, said.split())
        free = units * unit
        if free < (file.size or 0) - blocks * 512:
            raise WeightsError(
                f"the disk is full: {free / 1e6:.1f} MB are free, the rest of {file.name} does not"
                f" fit below {folder}",
                hint="free some space there, then run the same command again: what came is kept",
            )

    def _where(self, file: Offered) -> str:
        if self.want.near and file.name not in self.refused:
            return f"{self.want.near}/{quote(file.name)}"
        return hub.location(self._url(file))

    def _url(self, file: Offered) -> str:
        return hub.address(self.want.repo, self.want.commit, file.name)

    def _tell(self, name: str, have: float) -> None:
        self.have[name] = have

    def _download(self, files: Sequence[Offered]) -> None:
        order = {
            "repo": self.want.repo,
            "commit": self.want.commit,
            "folder": self.staging,
            "names": [file.name for file in files],
            "token": hub.token(),
            "endpoint": hub.endpoint(),
        }
        argv, text = (self.want.python, "-c", _HUB_PYTHON), json.dumps(order)
        said = self.host.run(Run(argv=argv, why=self.want.why, stdin=text, timeout_s=None))
        if not said.ok:
            raise self._hub_failed(said)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """The library says nothing while it downloads: what lies there does."""

        def look() -> None:
            while not self.stop.wait(1.0):
                said = self.sh(_ARRIVED, self.staging).stdout.strip()
                self.progress(float(said or 0), self.want.size)

        self.stop.clear()
        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        try:
            yield
        finally:
            self.stop.set()
            watching.join()
            self.stop.clear()

    def _note(self, file: Offered, path: str, said: str) -> None:
        """Our manifest, and the library's: commit, digest, and a time not before the file's."""
        note = settled(said, path, self.want.source)
        theirs = f"{self.want.folder}/.cache/huggingface/download/{file.name}.metadata"
        digest = file.sha256 or file.blob or note.sha256
        lines = f"{self.want.commit}\n{digest}\n{note.mtime_ns / 1e9}\n"
        for where, text in ((beside(path), note.text), (theirs, lines)):
            self.host.apply(Put(path=where, text=text, why="what the file was when it was checked"))

    def _given_up(self, file: Offered, error: Again) -> WeightsError:
        have = self.have.get(file.name, 0)
        return WeightsError(
            f"{file.name} of {self.want.repo} cannot be fetched: {error}",
            detail=f"{have / 1e6:.1f} MB are kept for the next try",
            hint="check the network, then run the same command again",
        )

    def _not_settled(self, file: Offered, said: Result) -> WeightsError:
        if said.code == _DAMAGED:
            return WeightsError(
                f"{file.name} of {self.want.repo} is not what it should be, twice: {_last(said)}",
                hint="the hub, or what is between, damages data: try again later",
            )
        return WeightsError(
            f"{self.want.folder}/{file.name} cannot be checked and named: {_last(said)}",
            hint="set it right, then run the same command again: what came is kept",
        )

    def _hub_failed(self, said: Result) -> WeightsError:
        hint = "set it right, then run the same command again: whole files are kept"
        if "No module named" in said.stderr or said.code == _NO_PROGRAM:
            hint = f"`{self.want.python} -m pip install huggingface_hub` on the box"
            if not self.later:
                hint = "`apt-get install aria2` on the box: it needs no Python there"
        return WeightsError(
            f"huggingface_hub cannot fetch {self.want.repo}: {_last(said)}", hint=hint
        )


def _last(said: Result) -> str:
    lines = said.stderr.strip().splitlines()
    return lines[-1].strip()[:500] if lines else f"exit code {said.code}"
