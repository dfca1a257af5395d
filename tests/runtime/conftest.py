"""Interpreted kernels in two thirds of the time.

Triton's interpreter looks through its whole language for what is still to be replaced, at every
call of a device function, and builds its table of types anew for every value.
"""

from __future__ import annotations

import inspect
import os
from functools import cache
from typing import Any


def _quicker(interpreter: Any) -> None:
    replace, kind = interpreter._patch_builtin, interpreter._get_np_dtype
    is_builtin = interpreter.tl.core.is_builtin
    known = cache(kind)

    @cache
    def first(part: Any) -> str:
        """The name of a builtin of this part of the language."""
        return next(name for name, one in inspect.getmembers(part) if is_builtin(one))

    def replaced(part: Any, *rest: Any) -> None:
        """All are replaced, and put back, together."""
        if is_builtin(getattr(part, first(part))):
            replace(part, *rest)

    def kind_of(type_: Any) -> Any:
        return kind(type_) if type_.scalar.is_ptr() else known(type_.scalar)

    interpreter._patch_builtin = replaced
    interpreter._get_np_dtype = kind_of


if os.environ.get("TRITON_INTERPRET") == "1":
    from triton.runtime import interpreter

    _quicker(interpreter)
