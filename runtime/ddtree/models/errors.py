"""The one error of loading: a checkpoint is not what it must be."""

from __future__ import annotations

from functools import partial
from pathlib import Path


class ModelError(Exception):
    """`where` is the file or folder that is wrong, `what` says how, `hint` what to do about it."""

    def __init__(self, where: Path | str, what: str, *, hint: str | None = None) -> None:
        super().__init__(f"{where}: {what}")
        self.where = str(where)
        self.what = what
        self.hint = hint

    def __reduce__(self) -> tuple[partial[ModelError], tuple[str, str]]:
        """As it goes from one rank to another."""
        return partial(ModelError, hint=self.hint), (self.where, self.what)
