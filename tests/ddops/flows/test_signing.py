"""A bundle says who vouches for it; a signature that was altered, moved or taken away is found."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ddops.bundle.bag import SIGNATURE, TAG_MANIFEST
from ddops.cli.app import main
from ddops.errors import BundleError, UsageError
from ddops.flows.bundle import create, sign
from ddops.flows.bundle_verify import verify
from ddops.flows.signing import check
from tests.ddops import records


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Alice's key, Mallory's, one in PEM, and a file that lets Alice sign."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "mallory"):
        keygen("-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name))
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "pem").write_bytes(pem)
    (folder / "signers").write_text(f"alice@example.org {(folder / 'alice.pub').read_text()}")
    return folder


def keygen(*arguments: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *arguments], check=True)


def faults(path: Path, signers: Path | None = None) -> str:
    return "\n".join(map(str, verify(path, signers).findings))


def envelope(folder: Path) -> dict[str, list[dict[str, str]]]:
    said: dict[str, list[dict[str, str]]] = json.loads((folder / SIGNATURE).read_text())
    return said


def put(folder: Path, said: object) -> None:
    (folder / SIGNATURE).write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")


def test_an_archive_and_a_folder_say_who_signed_them(
    bundle: Path, copy: Path, tmp_path: Path, keys: Path
) -> None:
    packed = Path(shutil.copy(records.archive_of(bundle), tmp_path))
    for path in (copy, packed):
        assert sign(path, keys / "alice")
        (signed,) = verify(path, keys / "signers").signed
        assert signed.by == "alice@example.org"
        assert faults(path, keys / "signers") == ""
    assert {path.name for path in tmp_path.iterdir()} == {copy.name, packed.name}


def test_signing_again_changes_nothing(copy: Path, keys: Path) -> None:
    assert sign(copy, keys / "alice")
    before = (copy / SIGNATURE).read_bytes()
    assert not sign(copy, keys / "alice")
    assert (copy / SIGNATURE).read_bytes() == before


def test_several_may_sign_and_one_of_them_must_be_trusted(copy: Path, keys: Path) -> None:
    assert sign(copy, keys / "mallory")
    assert f"{SIGNATURE}: is of nobody in signers" in faults(copy, keys / "signers")
    assert sign(copy, keys / "pem")
    assert sign(copy, keys / "alice")
    assert faults(copy, keys / "signers") == ""
    signed = verify(copy, keys / "signers").signed
    assert [one.by for one in signed] == [None, None, "alice@example.org"]


def test_a_key_in_pem_signs_as_the_envelope_format_has_it(
    copy: Path, tmp_path: Path, keys: Path
) -> None:
    assert sign(copy, keys / "pem")
    said = json.loads((copy / SIGNATURE).read_text())
    payload, kind = base64.b64decode(said["payload"]), said["payloadType"].encode()
    data = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    private = load_pem_private_key((keys / "pem").read_bytes(), None)
    assert isinstance(private, Ed25519PrivateKey)
    private.public_key().verify(base64.b64decode(said["signatures"][0]["sig"]), data)
    trusted = tmp_path / "signers"
    trusted.write_text(f"# people\nbob {said['signatures'][0]['keyid']} his key\n")
    assert [one.by for one in verify(copy, trusted).signed] == ["bob"]
    trusted.write_text(f'bob valid-before="20200101" {said["signatures"][0]["keyid"]}\n')
    assert "is of nobody in signers" in faults(copy, trusted)


def test_what_is_signed_is_a_statement_about_every_hash(copy: Path, keys: Path) -> None:
    assert sign(copy, keys / "alice")
    statement = json.loads(base64.b64decode(json.loads((copy / SIGNATURE).read_text())["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    (subject,) = statement["subject"]
    assert subject["name"] == f"{copy.name}/{TAG_MANIFEST}"
    assert subject["digest"] == {
        "sha256": hashlib.sha256((copy / TAG_MANIFEST).read_bytes()).hexdigest()
    }
    assert statement["predicate"]["failedTests"] == ["ddtree-b16.c4.r1", "ddtree-b8.c4.r1"]


def test_a_stripped_signature_is_missed(copy: Path, keys: Path) -> None:
    assert sign(copy, keys / "alice")
    (copy / SIGNATURE).unlink()
    assert faults(copy) == ""
    assert f"{SIGNATURE}: is missing: nobody of signers" in faults(copy, keys / "signers")


def test_a_swapped_signature_is_of_another_bundle(copy: Path, tmp_path: Path, keys: Path) -> None:
    run = records.written(tmp_path / "results")
    (run / "ar.c1.r1.json").unlink()
    other = create(run).folder
    assert sign(other, keys / "alice")
    shutil.copy(other / SIGNATURE, copy)
    assert f"{SIGNATURE}: is of another bundle" in faults(copy)


def test_a_signature_under_another_name_does_not_count(copy: Path, keys: Path) -> None:
    for key in ("mallory", "pem"):
        (copy / SIGNATURE).unlink(missing_ok=True)
        assert sign(copy, keys / key)
        said = envelope(copy)
        said["signatures"][0]["keyid"] = (keys / "alice.pub").read_text().strip()
        put(copy, said)
        assert f"{SIGNATURE}: was not made with the key" in faults(copy, keys / "signers")


@pytest.mark.parametrize("key", ["alice", "pem"])
def test_no_altered_bit_of_a_signature_stays_unseen(copy: Path, keys: Path, key: str) -> None:
    assert sign(copy, keys / key)
    good, dice = (copy / SIGNATURE).read_bytes(), random.Random(7)
    sealed = good.index(b'"sig"')
    places = [*dice.sample(range(len(good)), 60), *range(sealed, len(good), 7)]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << dice.randrange(8)
        (copy / SIGNATURE).write_bytes(bad)
        found = check(copy, None).findings
        assert [one.file for one in found] == [SIGNATURE], place


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[" * 100_000, b'{"payload": 1}', b"\xff", b" " * (1 << 20) + b"  ", b"null"],
)
def test_what_is_no_signature_is_told(copy: Path, content: bytes) -> None:
    (copy / SIGNATURE).write_bytes(content)
    assert faults(copy).startswith(f"{SIGNATURE}: ")


def test_a_key_that_may_sign_other_things_only_is_not_trusted(
    copy: Path, tmp_path: Path, keys: Path
) -> None:
    assert sign(copy, keys / "alice")
    trusted = tmp_path / "signers"
    trusted.write_text(f'alice namespaces="git" {(keys / "alice.pub").read_text()}')
    assert "is of nobody in signers" in faults(copy, trusted)


def test_a_bundle_with_a_fault_is_not_signed(copy: Path, keys: Path) -> None:
    (copy / "README.md").write_text("# better\n")
    with pytest.raises(BundleError, match="damaged") as told:
        sign(copy, keys / "alice")
    assert "README.md: was changed" in (told.value.detail or "")
    assert not (copy / SIGNATURE).exists()


@pytest.mark.parametrize("name", ["nothing", "signers", "locked.pem"])
def test_what_is_no_key_is_told(copy: Path, keys: Path, name: str) -> None:
    locked = BestAvailableEncryption(b"a passphrase")
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    (keys / "locked.pem").write_bytes(pem)
    with pytest.raises(UsageError) as told:
        sign(copy, keys / name)
    assert "ssh-keygen" in (told.value.hint or "")
    assert not (copy / SIGNATURE).exists()


def test_a_locked_key_signs_through_the_agent(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, asked = tmp_path / "locked", tmp_path / "asked"
    keygen("-t", "ed25519", "-N", "a passphrase", "-f", str(locked))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    with pytest.raises(UsageError) as told:
        sign(copy, locked)
    assert f"ssh-add {locked}" in (told.value.hint or "")
    asked.write_text("#!/bin/sh\necho a passphrase\n")
    asked.chmod(0o700)
    monkeypatch.setenv("SSH_ASKPASS", str(asked))
    line = f"{sys.executable} -m ddops bundle sign {copy} --key {locked}.pub"
    script = f"ssh-add -q {locked} && rm {locked} && {line}"
    subprocess.run(["ssh-agent", "sh", "-c", script], check=True, capture_output=True)
    assert len(verify(copy).signed) == 1


def test_without_ssh_keygen_the_rest_is_checked(
    copy: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sign(copy, keys / "alice")
    monkeypatch.setenv("PATH", "")
    seen = verify(copy)
    assert (seen.findings, seen.signed) == ((), ())
    assert "were not checked" in seen.notes[0]
    with pytest.raises(UsageError, match="ssh-keygen"):
        verify(copy, keys / "signers")


def test_the_commands_say_who_signed(
    copy: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bundle", "verify", str(copy)]) == 0
    assert "signed by nobody" in capsys.readouterr().out
    line = ["bundle", "sign", str(copy), "--key", str(keys / "alice")]
    assert main(line) == main(line) == 0
    said = capsys.readouterr()
    assert "nothing to change" in said.err
    private = (keys / "alice").read_text().splitlines()[2]
    everything = b"".join(p.read_bytes() for p in copy.rglob("*") if p.is_file())
    assert private not in said.out + said.err
    assert private.encode() not in everything
    signers = ["--signers", str(keys / "signers")]
    assert main(["bundle", "verify", str(copy), *signers]) == 0
    assert "signed by alice@example.org with SHA256:" in capsys.readouterr().out
    assert main(["bundle", "show", str(copy)]) == 0
    assert "SHA256:" in capsys.readouterr().out
    (copy / SIGNATURE).unlink()
    assert main(["bundle", "verify", str(copy), *signers]) == 10
    assert main(["bundle", "verify", str(copy), "--signers", "none"]) == 2
