"""Signatures of bundles: made with a key, checked against the keys of those one trusts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as LibraryError
from securesystemslib.signer import CryptoSigner, Signature, SSlibKey

from ddops.bundle import signature
from ddops.bundle.bag import SIGNATURE, TAG_MANIFEST, Finding
from ddops.bundle.signature import NAMESPACE, NotASignature, Signed
from ddops.errors import UsageError
from ddops.host import ssh_keygen

_PEM = b"-----BEGIN PRIVATE KEY-----"
_LOCKED_PEM = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_LONGEST = 64  # bytes


@dataclass(frozen=True)
class Checked:
    signed: tuple[Signed, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def sign(envelope: Envelope, key: Path) -> str:
    """Add a signature to `envelope`; return the public key. An ed25519 key in PEM signs as DSSE
    has it; every other one is OpenSSH's, and signs as `ssh-keygen -Y sign` does.

    Raises `UsageError` when the key cannot be read or is of another kind.
    """
    key = key.expanduser()
    if _first_line(key) in (_PEM, _LOCKED_PEM):
        made = CryptoSigner(*_pem(key)).sign(envelope.pae())
    else:
        blob = ssh_keygen.sign(key, envelope.pae(), NAMESPACE)
        made = Signature(signature.ssh_key(blob), blob.hex())
    envelope.signatures[made.keyid] = made
    return made.keyid


def check(folder: Path, signers: Path | None) -> Checked:
    """Who signed the bundle in `folder`. With `signers`, one of them must have.

    Raises `UsageError` when `signers` cannot be read, or `ssh-keygen` is needed and missing.
    """
    trusted = None if signers is None else _signers(signers)
    path, manifest = folder / SIGNATURE, folder / TAG_MANIFEST
    if not path.is_file() or not manifest.is_file():
        return Checked(findings=() if signers is None else (signature.missing(signers.name),))
    if path.stat().st_size > signature.MOST_BYTES:
        return Checked(findings=(Finding(SIGNATURE, "is too long for a signature", "L2"),))
    try:
        envelope = signature.read(path.read_bytes(), manifest.read_bytes())
    except NotASignature as reason:
        return Checked(findings=(Finding(SIGNATURE, str(reason), "L2"),))
    made = envelope.signatures.values()
    if signers is None and any(map(signature.is_ssh, made)) and not ssh_keygen.there():
        return Checked(notes=("its signatures were not checked: there is no `ssh-keygen` here",))
    signed, findings = [], []
    for each in made:
        if _fits(each, envelope.pae()):
            by = None if signers is None else _owner(each, envelope.pae(), signers, trusted or "")
            signed.append(Signed(signature.fingerprint(each.keyid), by))
        else:
            other = f"was not made with the key {each.keyid!a}"
            findings.append(Finding(SIGNATURE, other, "L2"))
    if signers is not None and not findings and not any(one.by for one in signed):
        keys = ", ".join(one.key for one in signed)
        nobody = f"is of nobody in {signers.name}: it was made with {keys}"
        findings.append(Finding(SIGNATURE, nobody, "L2"))
    return Checked(tuple(signed), tuple(findings))


def _first_line(key: Path) -> bytes:
    """Tells the two kinds apart; of an SSH key nothing else is read."""
    try:
        with key.open("rb") as file:
            return file.readline(_LONGEST).rstrip()
    except OSError as error:
        raise UsageError(
            f"the key {key} cannot be read: {error.strerror}",
            hint="make one: `ssh-keygen -t ed25519`",
        ) from None


def _pem(key: Path) -> tuple[Ed25519PrivateKey, SSlibKey]:
    """The private key, and the public one under its OpenSSH name."""
    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(
            f"{key} is not an ed25519 key in PEM without a passphrase",
            hint="sign with an SSH key, which may have one: `ssh-keygen -t ed25519`",
        )
    public = private.public_key()
    name = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, SSlibKey.from_crypto(public, keyid=name)


def _fits(made: Signature, data: bytes) -> bool:
    if signature.is_ssh(made):
        blob = signature.raw(made)
        return signature.ssh_key(blob) == made.keyid and ssh_keygen.fits(blob, data, NAMESPACE)
    try:
        public = load_ssh_public_key(made.keyid.encode())
        if not isinstance(public, Ed25519PublicKey):
            return False
        SSlibKey.from_crypto(public, keyid=made.keyid).verify_signature(made, data)
    except (ValueError, UnsupportedAlgorithm, LibraryError):
        return False
    plain = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return plain == made.keyid


def _owner(made: Signature, data: bytes, signers: Path, trusted: str) -> str | None:
    if signature.is_ssh(made):
        return ssh_keygen.owner(signature.raw(made), data, NAMESPACE, signers)
    return signature.owner(trusted, made.keyid)


def _signers(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the file of signers {path} cannot be read: {error}",
            hint="a line of it is a name and a public key: `alice@example.org ssh-ed25519 AAAA…`",
        ) from None
