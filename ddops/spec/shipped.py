"""Where shipped data lies: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

from ddops.errors import SpecError

_PACKAGE = Path(__file__).resolve().parent.parent
_HOMES = (_PACKAGE / "shipped", _PACKAGE.parent)


def shipped(folder: str) -> Path:
    """The folder `templates` or `inventories` of this installation."""
    for home in _HOMES:
        if (home / folder).is_dir():
            return home / folder
    raise SpecError(
        f"this installation of ddops lacks its `{folder}` folder", hint="reinstall ddops"
    )
