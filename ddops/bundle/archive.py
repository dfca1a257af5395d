"""A folder as `.tar.zst`: the same bytes for the same files, and nothing else is ever unpacked.

Every header is the one that `pack` writes: plain files, sorted, no owner, no date. That is what
keeps links, devices, absolute paths and hidden bytes out; there is no list of dangers to keep.

zstd's own checksum is of the content: some bits of the compressed bytes change nothing, so they
may be flipped unseen. Hence a last frame that decompressors skip, with the sha256 of all before.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

import zstandard

from ddops.bundle.bag import MOST_FILES, SAFE_NAME, Content, Finding, length
from ddops.errors import BundleError

LEVEL: Final = 10
LARGE: Final = 64 << 20  # bytes, from which LARGE_LEVEL packs: as small, ten times as fast
LARGE_LEVEL: Final = 1
WINDOW_LOG: Final = 23  # 8 MiB: what a decompressor must hold
MOST_BYTES: Final = 4 << 30
MOST_RATIO: Final = 100  # ours unpack to 8 times theirs
FREE_BYTES: Final = 16 << 20  # whatever the ratio
_SKIPPABLE: Final = bytes.fromhex("50 2a 4d 18")
_SEAL: Final = 4 + 4 + 32  # bytes

_BLOCK: Final = tarfile.BLOCKSIZE
_CHUNK: Final = 1 << 18
_FEED: Final = 1 << 10  # four bytes may become a block of 128 KiB: this much, at most 32 MiB


def pack(files: Mapping[str, Content], top: str, target: BinaryIO) -> str:
    """Write the archive of `files` under the folder `top`; return the sha256 of the tar."""
    digest, sealed = hashlib.sha256(), hashlib.sha256()
    large = sum(map(length, files.values())) >= LARGE
    compressing = compressor(LARGE_LEVEL, threads=1) if large else compressor()
    running = compressing.compressobj()

    def put(piece: bytes) -> None:
        sealed.update(piece)
        target.write(piece)

    for piece in _tar({f"{top}/{name}": content for name, content in files.items()}):
        digest.update(piece)
        put(running.compress(piece))
    put(running.flush())
    target.write(seal(sealed.digest()))
    return digest.hexdigest()


def seal(sha256: bytes) -> bytes:
    """The skippable frame that ends an archive; `sha256` is of all bytes before it."""
    return _SKIPPABLE + len(sha256).to_bytes(4, "little") + sha256


def compressor(level: int = LEVEL, *, threads: int = 0) -> zstandard.ZstdCompressor:
    """Fixed settings: the same bytes from every machine with this libzstd.

    `threads` is how many work beside this one, which reads and hashes meanwhile.
    """
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, window_log=WINDOW_LOG, write_checksum=1, write_content_size=0, threads=threads
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack into `folder`, which is empty; return the bundle's folder in it.

    Raises `BundleError` at the first byte that `pack` would not have written; what was unpacked
    until then is inside `folder`.
    """
    with archive.open("rb") as file:
        reader = _Reader(archive, file, _sealed(archive, file))
        tops = set(_unpacked(reader, folder))
        reader.finish()
    if len(tops) != 1:
        raise _broken(archive, f"it holds {len(tops)} folders, not one")
    return folder / tops.pop()


class _Reader:
    """Decompresses exactly as much as is asked for, counts, and knows which archive to blame."""

    def __init__(self, archive: Path, file: BinaryIO, size: int) -> None:
        self.archive = archive
        self._file = file
        self._unread = size
        self._frame = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).decompressobj()
        self._ready = b""
        self._left = self._most = min(MOST_BYTES, FREE_BYTES + MOST_RATIO * size)

    def announce(self, size: int) -> None:
        """So much will be asked for: refused before it is unpacked, and before it is written."""
        if size > self._left:
            raise self.wrong(f"it unpacks to more than {self._most >> 20} MiB")

    def exactly(self, size: int) -> bytes:
        self.announce(size)
        self._left -= size
        while len(self._ready) < size:
            self._feed(_FEED)
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken

    def finish(self) -> None:
        """The frame's own checksum is its last four bytes, and nothing follows it."""
        while not self._frame.eof:
            self._feed(_FEED)
        if self._ready or self._frame.unused_data or self._unread:
            raise self.wrong("something follows its end")

    def _feed(self, size: int) -> None:
        part = self._file.read(min(size, self._unread))
        self._unread -= len(part)
        if not part or self._frame.eof:
            raise self.wrong("it ends too early")
        try:
            self._ready += self._frame.decompress(part)
        except zstandard.ZstdError as error:
            raise self.wrong(f"it is damaged: {error}") from error

    def wrong(self, reason: str) -> BundleError:
        return _broken(self.archive, reason)


def _sealed(archive: Path, file: BinaryIO) -> int:
    """How many bytes the seal is right about; the file is left at its beginning."""
    left = size = max(file.seek(0, io.SEEK_END) - _SEAL, 0)
    file.seek(0)
    digest = hashlib.sha256()
    while left:
        part = file.read(min(left, _CHUNK))
        left -= len(part)
        digest.update(part)
    if file.read() != seal(digest.digest()):
        raise _broken(archive, "it was changed, or cut short: its seal is not that of its bytes")
    file.seek(0)
    return size


def _unpacked(reader: _Reader, folder: Path) -> Iterator[str]:
    """Write every member, yield the folder it lies in."""
    before = ""
    for _ in range(MOST_FILES):
        header = reader.exactly(_BLOCK)
        if not any(header):
            if any(reader.exactly(_BLOCK)):
                raise reader.wrong("its end is not two empty blocks")
            return
        member = _member(reader, header)
        if member.name <= before:
            raise reader.wrong(f"{member.name} comes after {before}")
        before = member.name
        _write(reader, member, folder / member.name)
        yield member.name.partition("/")[0]
    raise reader.wrong(f"it holds more than {MOST_FILES} files")


def _member(reader: _Reader, header: bytes) -> tarfile.TarInfo:
    try:
        member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError) as error:
        raise reader.wrong(f"a header is damaged: {error}") from error
    if member.size < 0:
        raise reader.wrong(f"{member.name!r} has an impossible size")
    reader.announce(member.size)
    if member.type != tarfile.REGTYPE:
        raise reader.wrong(f"{member.name!r} is not a plain file")
    if not SAFE_NAME.match(member.name) or "/" not in member.name:
        raise reader.wrong(f"{member.name!r} is not a name inside the bundle")
    if header != _header(member.name, member.size):
        raise reader.wrong(f"the header of {member.name!r} says more than name and size")
    return member


def _write(reader: _Reader, member: tarfile.TarInfo, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            left = member.size
            while left:
                part = reader.exactly(min(left, _CHUNK))
                file.write(part)
                left -= len(part)
    except OSError as error:
        raise reader.wrong(f"{member.name} cannot be unpacked: {error.strerror}") from error
    if any(reader.exactly(-member.size % _BLOCK)):
        raise reader.wrong(f"there are bytes behind the end of {member.name}")


def _tar(files: Mapping[str, Content]) -> Iterator[bytes]:
    for name in sorted(files):
        content = files[name]
        size = length(content)
        yield _header(name, size)
        yield from _pieces(content)
        yield bytes(-size % _BLOCK)
    yield bytes(2 * _BLOCK)


def _pieces(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member.tobuf(tarfile.USTAR_FORMAT)


def _broken(archive: Path, reason: str) -> BundleError:
    return BundleError(
        f"{archive.name} is not an archive that can be trusted",
        detail=str(Finding(archive.name, reason)),
        hint="get it again from where it came; a bundle that was packed anew with `tar` is "
        "unpacked by hand and checked as a folder",
    )
