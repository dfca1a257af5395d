"""What the engine refuses, a request that can never be served or a machine that is too small, and
the end of a part of it.
"""


class RequestError(ValueError):
    """The request is at fault; `param` names what to change."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class RankError(RuntimeError):
    """Another rank of this engine has ended; the message begins with `rank`."""


class CapacityError(MemoryError):
    """Weights and cache do not fit into the device's memory."""
