"""This machine as a `Host`."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ddops.errors import HostError, StepError, WeightsError
from ddops.host import atomic, manifest
from ddops.host.base import Held, Progress
from ddops.spec.command import Command, Extract, Fetch, Pull, Put, Result, Run

_CHUNK = 1 << 20  # bytes
_TAIL = 20  # lines of a failed command's output in its error


class Local:
    name = "local"

    @property
    def home(self) -> str:
        return str(Path.home())

    def run(self, command: Run) -> Result:
        """A program that does not exist is exit code 127, as a shell would say."""
        argv = (*(("sudo", "-n") if command.sudo else ()), *command.argv)
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                argv,
                cwd=command.cwd,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C is ours to handle, not the child's
            )
        except OSError as error:
            return Result(argv=argv, code=127, stdout="", stderr=str(error), seconds=0.0)
        stdout, stderr = _finish(process, command)
        seconds = time.monotonic() - began
        code = process.returncode
        return Result(argv=argv, code=code, stdout=stdout, stderr=stderr, seconds=seconds)

    def read(self, path: str) -> bytes | None:
        try:
            return Path(path).expanduser().read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise HostError(f"{path} cannot be read: {error.strerror}") from error

    def apply(self, command: Command, progress: Progress | None = None) -> Result | None:
        tell = progress or (lambda done, total: None)
        match command:
            case Run():
                return self._run(command)
            case Put():
                self._put(command)
            case Fetch():
                from ddops.host import fetch  # with httpx: 0.1 s that only a download pays

                fetch.fetch(command, tell)
            case Pull():
                from ddops.host import pull

                pull.pull(self, command, tell)
            case Extract():
                _extract(command, tell)
        return None

    def way(self, address: str, port: int) -> str:
        return f"{address}:{port}"

    def bulk(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return argv

    @contextmanager
    def hold(self, path: str, text: str) -> Iterator[None]:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Held(Path(path).read_text("utf-8")) from None
            file.truncate(0)
            file.write(text)
            file.flush()
            yield

    def free(self, path: str, text: str) -> None:
        """Nothing to do: the kernel gave it back."""

    def close(self) -> None:
        pass

    def _run(self, command: Run) -> Result:
        result = self.run(command)
        if not result.ok:
            said = (result.stderr or result.stdout).strip().splitlines()[-_TAIL:]
            raise StepError(
                f"`{command.line}` ended with exit code {result.code}",
                detail="\n".join(said) or None,
                hint="set it right, then run the same command again: it goes on from here",
            )
        return result

    def _put(self, command: Put) -> None:
        if command.sudo:
            script = 'umask 077; cat > "$1.new" && chmod "$2" "$1.new" && mv "$1.new" "$1"'
            argv = ("sh", "-c", script, "sh", command.path, f"{command.mode:o}")
            self._run(Run(argv=argv, why=command.why, stdin=command.text, sudo=True))
            return
        try:
            atomic.write(Path(command.path), command.text.encode(), command.mode)
        except OSError as error:
            room = "free some space there" if error.errno == errno.ENOSPC else None
            why = f"{command.path} cannot be written: {error.strerror}"
            raise StepError(why, hint=room) from error


def _finish(process: subprocess.Popen[str], command: Run) -> tuple[str, str]:
    """Whatever ends the waiting ends the whole process group."""
    try:
        return process.communicate(command.stdin, timeout=command.timeout_s)
    except subprocess.TimeoutExpired:
        _end_group(process)
        raise HostError(
            f"`{command.line}` did not end within {command.timeout_s:.0f} s",
            hint="run it by hand to see what it waits for",
        ) from None
    except BaseException:
        _end_group(process)
        raise


def _end_group(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=2.0)
            return


def _extract(command: Extract, progress: Progress) -> None:
    path, part = Path(command.path), Path(f"{command.path}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(command.archive) as archive:
            total = archive.getinfo(command.member).file_size
            with archive.open(command.member) as read, part.open("wb") as write:
                while data := read.read(_CHUNK):
                    write.write(data)
                    progress(write.tell(), total)
    except KeyError:
        raise WeightsError(
            f"{command.archive} has no member `{command.member}`",
            hint=f"`python -m zipfile -l {command.archive}` lists what it has",
        ) from None
    except (zipfile.BadZipFile, OSError) as error:
        part.unlink(missing_ok=True)
        raise _unreadable(command, error) from error
    sha256 = manifest.digest(part)
    if command.sha256 and sha256 != command.sha256:
        part.unlink()
        raise WeightsError(
            f"`{command.member}` has sha256 {sha256}, {command.sha256} was expected",
            hint="check `source` and `sha256` in the inventory",
        )
    atomic.settle(part, path)
    manifest.record(path, f"{Path(command.archive).name}#{command.member}", sha256)


def _unreadable(command: Extract, error: Exception) -> WeightsError:
    free = shutil.disk_usage(Path(command.path).parent).free
    return WeightsError(
        f"`{command.member}` cannot be taken out of {command.archive}: {error}",
        detail=f"{free / 1e6:.1f} MB are free on the disk",
        hint="run the same command again: the archive is fetched anew if it is damaged",
    )
