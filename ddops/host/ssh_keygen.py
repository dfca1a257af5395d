"""Signatures with a user's own SSH key, made and checked by `ssh-keygen`.

It asks for passphrases, talks to the agent and to hardware keys; no private key is read here.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ddops.errors import UsageError

_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_WIDTH: Final = 70


def there() -> bool:
    return shutil.which("ssh-keygen") is not None


def sign(key: Path, data: bytes, namespace: str) -> bytes:
    """The signature, without its armour. `key` is private, or public with the agent holding it.

    Raises `UsageError` with what `ssh-keygen` said.
    """
    made = _run(("sign", "-q", "-f", str(key), "-n", namespace), data)
    if made.returncode:
        raise UsageError(
            f"{key} cannot sign",
            detail=made.stderr.decode("utf-8", "replace"),
            hint=f"a key with a passphrase: `ssh-add {key}`; make one: `ssh-keygen -t ed25519`",
        )
    return base64.b64decode("".join(made.stdout.decode().splitlines()[1:-1]))


def fits(signature: bytes, data: bytes, namespace: str) -> bool:
    """Was `data` signed with the key that `signature` names, whoever that may be."""
    with _armoured(signature) as file:
        return _run(("check-novalidate", "-n", namespace, "-s", file), data).returncode == 0


def owner(signature: bytes, data: bytes, namespace: str, signers: Path) -> str | None:
    """Whom `signers`, a file as in ssh-keygen(1), ALLOWED SIGNERS, lets sign this."""
    with _armoured(signature) as file:
        of = ("-f", str(signers), "-s", file)
        found = _run(("find-principals", *of), b"").stdout.decode("utf-8", "replace")
        for name in found.splitlines():
            line = ("verify", *of, "-I", name, "-n", namespace)
            if _run(line, data).returncode == 0:
                return name
    return None


@contextmanager
def _armoured(signature: bytes) -> Iterator[str]:
    body = textwrap.wrap(base64.b64encode(signature).decode(), _WIDTH)
    with tempfile.NamedTemporaryFile("w", prefix="ddops-", suffix=".sig") as file:
        file.write("\n".join([_BEGIN, *body, _END, ""]))
        file.flush()
        yield file.name


def _run(arguments: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    """In the foreground: a passphrase is asked for on the terminal."""
    try:
        return subprocess.run(("ssh-keygen", "-Y", *arguments), input=data, capture_output=True)
    except FileNotFoundError:
        raise UsageError(
            "there is no `ssh-keygen` here, which makes and checks signatures with SSH keys",
            hint="install OpenSSH's client (`apt install openssh-client`)",
        ) from None
