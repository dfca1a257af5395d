"""One line an event on stderr: `time level event key=value ...`. Never a prompt, never a key."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_logger = logging.getLogger("ddtree.server")

Value = str | int | float | bool | None


def info(event: str, **fields: Value) -> None:
    _logger.info(event, extra={"fields": fields})


def warning(event: str, **fields: Value) -> None:
    _logger.warning(event, extra={"fields": fields})


def error(event: str, **fields: Value) -> None:
    _logger.error(event, extra={"fields": fields})


def to_stderr() -> None:
    """Everything that is logged in this process, the web server's own words included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _logger.setLevel(logging.INFO)
    logging.getLogger("ddtree.models").setLevel(logging.INFO)  # how far loading has come


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        words = [at, record.levelname.lower(), _word(record.getMessage())]
        fields: dict[str, Value] = getattr(record, "fields", {})
        words += [f"{name}={_word(_short(value))}" for name, value in fields.items()]
        if record.exc_info:
            words.append(f"traceback={json.dumps(self.formatException(record.exc_info))}")
        return " ".join(words)


def _short(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _word(text: str) -> str:
    """Quoted where it would fall apart; a line break never reaches the log."""
    return text if text.isprintable() and " " not in text and text else json.dumps(text)
