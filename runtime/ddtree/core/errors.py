"""What a caller of the engine did wrong, said so that it can be repeated to a client."""

from __future__ import annotations


class RequestError(ValueError):
    """The engine cannot take this request. `param` names the field of it that is wrong."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
