"""The base of every word ddops reads or writes: frozen, and an unknown key is an error."""

from pydantic import BaseModel, ConfigDict


class Word(BaseModel):
    """A frozen value. What a machine wrote has no defaults: a missing field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def is_none(value: object) -> bool:
    """For `exclude_if`: what is None is not written, so that older files stay as they are."""
    return value is None
