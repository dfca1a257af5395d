"""Everything that answers, from a configuration. torch is imported here, on first use."""

from __future__ import annotations

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
from ddtree.server.seam import Loaded


def load(config: EngineConfig, dialect: str = AUTO) -> Loaded:
    """The engine is built, not started; `auto`: the dialect of its chat template.

    Raises LoadError.
    """
    try:
        return _load(config, dialect)
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


def _load(config: EngineConfig, dialect: str) -> Loaded:
    # Inside, because the server answers `/health` before these seconds of imports; torch last,
    # because what is wrong with the model's files is mostly seen without it.
    from ddtree.server.chat import load_chat
    from ddtree.server.tokenizer import load_tokenizer

    tokenizer, chat = load_tokenizer(config.model), load_chat(config.model)
    from ddtree.engine.open import open_engine

    shown = None if chat is None else chat.source
    heard = choose(shown) if dialect == AUTO else DIALECTS[dialect]
    return Loaded(open_engine(config), tokenizer, chat, heard)
