"""What is private goes, wherever it stands; what only looks like it stays."""

from __future__ import annotations

import json

import pytest

from ddops.bundle.redact import Known, redact

KNOWN = Known(
    secrets=('s3cr"t\\value', "12345678"),
    users=("alice", "root", "model"),
    hosts=("box-17",),
    addresses=("203.0.113.9", "2001:db8::17"),
    homes=("/data/people/al",),
    vocabulary=frozenset({"model"}),
)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("HF_TOKEN=hf_" + "a" * 30, "hf_a"),
        ("key sk-" + "b" * 24 + " used", "sk-b"),
        ("HUB_TOKEN=abcdef123456", "abcdef123456"),
        ("https://bob:hunter2@host/x", "hunter2"),
        ("https://h/f?X-Amz-Signature=0a1b2c&x=1", "0a1b2c"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\\nb3Blb\\n-----END OPENSSH PRIVATE KEY-----", "b3Bl"),
        ("cache /home/alice/.cache", "alice"),
        ("cache /home/somebody.else/.cache", "somebody"),
        ("C /Users/Bob/x", "Bob"),
        ("alice@box-17:~$", "alice"),
        ("alice@box-17:~$", "box-17"),
        ("/data/people/al/results", "people"),
        (json.dumps('s3cr"t\\value'), "s3cr"),
        ("?key=s3cr%22t%5Cvalue", "s3cr"),
        ("connection from 203.0.113.9 refused", "203.0.113.9"),
        ("listening on [2001:db8::17]:8421", "2001:db8::17"),
        ("http://198.51.100.7/v1", "198.51.100.7"),
        ("root@10.0.0.7 said", "10.0.0.7"),
        ("ssh://root@10.0.0.7 said", "10.0.0.7"),
        ("connect to 10.0.0.7:8421: refused", "10.0.0.7"),
        ("route 192.168.4.0/24", "192.168.4.0"),
        ("    Serial Number                    : 1650000000001\n", "1650000000001"),
        ("    GPU PDI                          : 0xf83350081be594e3", "be594e3"),
        ("    GPU UUID : GPU-00000000-0000-4000-8000-000000000001\n", "000000000001"),
        ("CUDA_VISIBLE_DEVICES=MIG-0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d"),
    ],
)
def test_what_is_private_goes(text: str, gone: str) -> None:
    result = redact(text, KNOWN)
    assert gone not in result.text
    assert sum(result.counts.values()) >= 1


@pytest.mark.parametrize(
    "text",
    [
        '{"model": "SmolLM2", "n": 12345678}',
        "root@localhost",
        "malice and alicex and palice",
        "sk-learn 1.5, nvidia-cudnn-cu13 9.19.0.56",
        "tiktoken==0.13.0",
        '"purl": "pkg:pypi/nvidia-cublas@13.1.0.3"',
        "/usr/lib/home/x, ./home/x",
        "http://127.0.0.1:8421/v1, listening on 0.0.0.0:80, [::1]:80",
        "nvidia-curand 10.3.10.19, driver 1203.0.113.9, 203.0.113.90, 2001:db8::171",
        "/data/people/albert",
        '"completion_tokens":48,"tokens":3',
        "sha256 " + "e" * 64,
    ],
)
def test_what_only_looks_private_stays(text: str) -> None:
    assert redact(text, KNOWN).text == text


def test_redacting_twice_changes_nothing() -> None:
    text = "Bearer abcdef123456 /home/alice/x alice password=hunter22 https://a:b@c"
    once = redact(text, KNOWN)
    twice = redact(once.text, KNOWN)
    assert twice.text == once.text
    assert twice.counts == {}


def test_json_stays_json() -> None:
    value = {"log": "token hf_" + "a" * 30, "k": "-----BEGIN PRIVATE KEY-----\nabc", "z": 1}
    assert json.loads(redact(json.dumps(value), KNOWN).text)["z"] == 1
