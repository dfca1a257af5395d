"""Everything that answers, from a configuration. torch is imported here, on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ddtree.config import EngineConfig
from ddtree.engine.errors import CapacityError, RankError
from ddtree.models.errors import ModelError
from ddtree.server.dialect import AUTO, DIALECTS, choose
from ddtree.server.exits import (
    BAD_ARGUMENTS,
    CANNOT_LOAD,
    OUT_OF_MEMORY,
    RANK_DIED,
    LoadError,
    exit_code,
)
from ddtree.server.seam import Words

if TYPE_CHECKING:
    from ddtree.engine.loop import Engine


def load_words(model: str, dialect: str = AUTO) -> Words:
    """`auto`: the dialect of the model's chat template. Raises LoadError."""
    with _load_errors():
        # Inside, because the server answers `/health` before these are imported.
        from ddtree.server.chat import load_chat
        from ddtree.server.tokenizer import load_tokenizer

        tokenizer, chat = load_tokenizer(model), load_chat(model)
        shown = None if chat is None else chat.source
        heard = choose(shown) if dialect == AUTO else DIALECTS[dialect]
        return Words(tokenizer, chat, heard)


def load_engine(config: EngineConfig) -> Engine:
    """In this process: built, not started. Raises LoadError."""
    with _load_errors():
        from ddtree.engine.open import open_engine

        return open_engine(config)


@contextmanager
def _load_errors() -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        raise LoadError(str(error), CANNOT_LOAD, error.hint) from error
    except (CapacityError, MemoryError) as error:
        raise LoadError(
            f"out of memory: {error}",
            OUT_OF_MEMORY,
            "lower `--kv-tokens`, `--context-length` or `--max-running-requests`",
        ) from error
    except ValueError as error:
        raise LoadError(str(error), BAD_ARGUMENTS) from error
    except RankError as error:
        raise LoadError(str(error), RANK_DIED) from error
    except RuntimeError as error:  # torch's own out-of-memory error is one
        if (code := exit_code(f"{type(error).__name__}: {error}", CANNOT_LOAD)) != OUT_OF_MEMORY:
            raise
        raise LoadError(str(error), code) from error
