"""What pydantic says first of a file that is no YAML: where in it, and what is wrong.

`ddops.spec.load` tells more of a YAML file, for it knows its lines.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ValidationError


class Complaint(NamedTuple):
    where: str  # keys and numbers with dots between them
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message[:1].lower()}{self.message[1:]}"


def complaint(error: ValidationError, whole: str = "the file") -> Complaint:
    """The first one; `whole` names what it is about when it is about no part."""
    first = error.errors()[0]
    return Complaint(".".join(map(str, first["loc"])) or whole, first["msg"])
