"""Text from a shipped template; a variable that is not given is an error."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ddops.spec.shipped import shipped


def fill(template: str, **values: object) -> str:
    environment = Environment(
        loader=FileSystemLoader(shipped("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quoted"] = quoted
    environment.filters["seconds"] = lambda number: f"{number:g}"
    return environment.get_template(template).render(values)


def quoted(word: str) -> str:
    """One word of ExecStart: systemd expands `%` and `$`, and splits at spaces."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    plain = escaped and not set(escaped) & set(" \t\"'\\;")
    return escaped if plain else f'"{escaped}"'
