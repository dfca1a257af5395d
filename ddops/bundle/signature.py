"""Who vouches for a bundle: an in-toto statement about its hashes, in a DSSE envelope. Pure.

The envelope lies beside `data/` and is in no manifest, because it is of their hashes: the subject
is the tag manifest, which pins every other file. A `keyid` is the whole public key as OpenSSH
writes it, so that a signature can be checked before anyone says whose key that is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import Field, ValidationError
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as LibraryError
from securesystemslib.signer import Signature

from ddops.bundle.bag import SIGNATURE, TAG_MANIFEST, Finding
from ddops.bundle.recheck import Opened
from ddops.spec.base import Word
from ddops.spec.complaint import complaint

MOST_BYTES: Final = 1 << 20
MOST_SIGNATURES: Final = 16
NAMESPACE: Final = "ddops-bundle"
"""What an SSH signature is for: one made for git or a mail is none of a bundle."""

_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_TEST_RESULT: Final = "https://in-toto.io/attestation/test-result/v0.1"
_SSH: Final = b"SSHSIG"
_VERSION: Final = 4  # bytes
_LINE: Final = re.compile(
    rf'^(?P<name>[^\s#"]+)\s+(?:namespaces="{NAMESPACE}"\s+)?(?P<key>ssh-ed25519\s+[\w+/=]+)',
    re.ASCII,
)


class _Signature(Word):
    keyid: str
    sig: str


class _Envelope(Word):
    payload: str
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    signatures: tuple[_Signature, ...] = Field(min_length=1, max_length=MOST_SIGNATURES)


class _Subject(Word):
    name: str
    digest: dict[str, str]


class _Statement(Word):
    kind: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[_Subject, ...]
    predicate_type: str = Field(alias="predicateType")
    predicate: dict[str, Any]


@dataclass(frozen=True)
class Signed:
    """A signature that fits its bundle."""

    key: str  # `SHA256:…`, as `ssh-keygen -l` prints it
    by: str | None  # whose key that is, says the file of signers; None: it does not say


class NotASignature(Exception):
    """Says why a file is not an envelope of this bundle."""


def unsigned(tag_manifest: bytes, opened: Opened) -> Envelope:
    """What signers of a sound bundle state: its hashes, and which of its cells are good."""
    records = opened.records.values()
    good = sorted(record.cell.id for record in records if record.ok)
    bad = sorted(record.cell.id for record in records if not record.ok)
    name = opened.info.name if opened.info else "bundle"
    statement = {
        "_type": _STATEMENT,
        "subject": [{"name": f"{name}/{TAG_MANIFEST}", "digest": _digest(tag_manifest)}],
        "predicateType": _TEST_RESULT,
        "predicate": {
            "result": "WARNED" if bad else "PASSED",
            "configuration": [{"uri": "data/matrix.yaml"}],
            "passedTests": good,
            "failedTests": bad,
        },
    }
    return Envelope(json.dumps(statement, sort_keys=True).encode(), _PAYLOAD_TYPE, {})


def text(envelope: Envelope) -> bytes:
    return (json.dumps(envelope.to_dict(), indent=1, sort_keys=True) + "\n").encode()


def read(content: bytes, tag_manifest: bytes) -> Envelope:
    """Raises `NotASignature` unless it is of these very hashes, in the form that `text` writes."""
    try:
        said = _Envelope.model_validate_json(content).model_dump(by_alias=True)
        envelope = Envelope.from_dict(said)
        statement = _Statement.model_validate_json(envelope.payload)
    except (ValidationError, LibraryError, ValueError) as error:
        raise NotASignature(f"is no signed in-toto statement: {_first(error)}") from None
    if text(envelope) != content:
        raise NotASignature("is not in the form ddops writes")
    if not any(subject.digest == _digest(tag_manifest) for subject in statement.subject):
        names = ", ".join(subject.name for subject in statement.subject)
        raise NotASignature(f"is of another bundle: it signs {names!a} with other hashes")
    return envelope


def is_ssh(signature: Signature) -> bool:
    return raw(signature).startswith(_SSH)


def raw(signature: Signature) -> bytes:
    return bytes.fromhex(signature.signature)


def ssh_key(blob: bytes) -> str:
    """The public key inside an SSH signature, as OpenSSH writes it."""
    key = _string(blob[len(_SSH) + _VERSION :])
    return f"{_string(key).decode('ascii', 'replace')} {base64.b64encode(key).decode()}"


def fingerprint(key: str) -> str:
    """`SHA256:…` of a public key as OpenSSH writes it; raises `ValueError` for anything else."""
    digest = hashlib.sha256(base64.b64decode(key.partition(" ")[2], validate=True)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def owner(signers: str, key: str) -> str | None:
    """Whose ed25519 key it is. Lines with options that only `ssh-keygen` weighs do not count."""
    for line in signers.splitlines():
        if (said := _LINE.match(line)) and said["key"].split() == key.split():
            return said["name"]
    return None


def missing(signers: str) -> Finding:
    return Finding(SIGNATURE, f"is missing: nobody of {signers} has signed this", "L2")


def _string(blob: bytes) -> bytes:
    """SSH's strings begin with their length."""
    return blob[4 : 4 + int.from_bytes(blob[:4])]


def _digest(content: bytes) -> dict[str, str]:
    return {"sha256": hashlib.sha256(content).hexdigest()}


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = complaint(error)
        return f"{first.where}: {first.message.lower()}"
    return str(error)
