"""Kimi's vocabulary, `tiktoken.model` and the tokens of its config, as a byte-level BPE tokenizer.

A line is a token, base64, and its rank. tiktoken joins whichever neighbours make the token of the
lowest rank; so every way to cut a token into two others is a merge here, in order of ranks.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from ddtree.models.errors import ModelError
from ddtree.models.folder_json import optional_json
from ddtree.server.bytelevel import byte_of_symbol

FILE = "tiktoken.model"
RESERVED = 256  # ids behind the ranks that are tokens even where the config names none

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# How Kimi's models cut text before they join bytes, as their tokenizer defines it.
PATTERN = "|".join(
    (
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SUFFIX}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SUFFIX}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def build_tokenizer(folder: Path) -> Tokenizer:
    """Raises ModelError when the file cannot be read."""
    ranks = _ranks(folder / FILE)
    symbols = {byte: symbol for symbol, byte in byte_of_symbol().items()}
    spelled = {token: "".join(symbols[byte] for byte in token) for token in ranks}
    merges = [
        (spelled[token[:cut]], spelled[token[cut:]])
        for token in sorted(ranks, key=ranks.__getitem__)
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    vocabulary = {spelled[token]: rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(_added(folder, len(ranks)))
    return tokenizer


def _ranks(path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    try:
        for line in path.read_bytes().splitlines():
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
    except (OSError, ValueError, binascii.Error) as error:
        raise ModelError(path, f"cannot be read: {error}") from error
    if not ranks or sorted(ranks.values()) != list(range(len(ranks))):
        raise ModelError(path, "has gaps in its ranks")
    return ranks


def _added(folder: Path, first: int) -> list[AddedToken]:
    """In the order of their ids, which follow the ranks."""
    path = folder / "tokenizer_config.json"
    named: dict[str, Any] = optional_json(path).get("added_tokens_decoder") or {}
    if outside := [i for i in named if not first <= int(i) < first + RESERVED]:
        raise ModelError(path, f"names token {outside[0]}, outside {first}..{first + RESERVED - 1}")
    return [
        AddedToken(
            named.get(str(index), {}).get("content", f"<|reserved_token_{index}|>"),
            special=bool(named.get(str(index), {}).get("special", True)),
            normalized=False,
        )
        for index in range(first, first + RESERVED)
    ]
