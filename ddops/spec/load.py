"""The only reader of YAML. Its errors name file, line, column, key and the nearest valid key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from yaml.nodes import MappingNode, Node, SequenceNode

from ddops.errors import SpecError, UsageError
from ddops.spec.base import Word
from ddops.spec.box import Box
from ddops.spec.shipped import shipped

W = TypeVar("W", bound=Word)
Step = str | int

# The table of rules takes 42 ms in Python and 3 in C, which not every PyYAML is built with.
_QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_box(name: str, *, folder: Path | None = None) -> Box:
    """The inventory `name`: a path, or a file of `folder`/inventories, or a shipped one."""
    path = Path(name) if is_path(name) else _inventory(name, folder or Path.cwd())
    return read(path, Box, name=path.stem)


def boxes(folder: Path) -> dict[str, Path]:
    """Every inventory by name; those of `folder` hide shipped ones of the same name."""
    homes = (shipped("inventories"), folder / "inventories")
    return {path.stem: path for home in homes for path in sorted(home.glob("*.yaml"))}


def is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def no_box(name: str, known: Iterable[str], groups: Iterable[str] = ()) -> UsageError:
    near = difflib.get_close_matches(name, [*known, *groups], n=1)
    lines = {"known boxes": sorted(known), "known groups": sorted(groups)}
    return UsageError(
        f"there is no box `{name}`",
        detail="\n".join(f"{what}: {', '.join(names)}" for what, names in lines.items() if names),
        hint=f"did you mean `{near[0]}`?"
        if near
        else f"write inventories/{name}.yaml; {_example()}",
    )


def read(path: Path, model: type[W], **given: object) -> W:
    """Read one YAML file into `model`; `given` are fields that the file must not set."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", hint=_example()) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from None
    return parse(text, model, str(path), **given)


def parse(text: str, model: type[W], file: str, **given: object) -> W:
    """As `read`, from text; `file` is what errors call it."""
    root, data = _compose(text, file)
    source = _Source(file, root, model)
    if not isinstance(data, dict):
        raise source.wrong((), "expected keys and values")
    source.refuse_duplicates(root)
    for key in given:
        if key in data:
            raise source.wrong((key,), f"key `{key}` is not set in the file: it is its name")
    try:
        return model.model_validate({**data, **given})
    except ValidationError as error:
        raise source.explain(error) from None


def _inventory(name: str, folder: Path) -> Path:
    known = boxes(folder)
    if name in known:
        return known[name]
    raise no_box(name, known)


def _example() -> str:
    return f"{shipped('inventories') / 'example.yaml'} explains every key"


def _compose(text: str, name: str) -> tuple[Node, Any]:
    try:
        return _composed(text, name, _QUICK)
    except yaml.YAMLError:  # told in the words of the other, which are the same everywhere
        pass
    try:
        return _composed(text, name, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise SpecError(f"{where}: {error.problem or error.context}", hint=_example()) from None
    except yaml.YAMLError as error:
        raise SpecError(f"{name}: {error}") from None


def _composed(text: str, name: str, kind: type[yaml.SafeLoader]) -> tuple[Node, Any]:
    loader = kind(text)
    try:
        root = loader.get_single_node()
        if root is None:
            raise SpecError(f"{name} is empty", hint=_example())
        return root, loader.construct_document(root)
    finally:
        loader.dispose()


@dataclass(frozen=True)
class _Found:
    """One complaint, at the place in the file that it is about."""

    path: tuple[Step, ...]
    node: Node
    message: str
    given: str = ""
    wanted: tuple[str, ...] = ()  # what could stand in place of `given`
    rank: int = 1  # unknown keys come first, they tend to explain the rest


@dataclass(frozen=True)
class _Source:
    name: str
    root: Node
    model: type[BaseModel]

    def explain(self, error: ValidationError) -> SpecError:
        found = [self._found(item) for item in error.errors()]
        # A union complains once per member: the complaint that got deepest is the useful one.
        deepest = [one for one in found if not any(_deeper(other, one) for other in found)]
        deepest.sort(key=lambda one: (one.rank, one.node.start_mark.index))
        first, *others = [
            one for i, one in enumerate(deepest) if one.path not in _paths(deepest[:i])
        ]
        detail = "\n".join(f"{self._at(one.node)}: {one.message}" for one in others)
        return SpecError(
            f"{self._at(first.node)}: {first.message}", detail=detail or None, hint=_hint(first)
        )

    def wrong(self, path: tuple[Step, ...], message: str) -> SpecError:
        return SpecError(f"{self._at(self._node(path)[1])}: {message}", hint=_example())

    def refuse_duplicates(self, node: Node) -> None:
        """YAML keeps the last of two equal keys and says nothing; that hides a mistake."""
        if isinstance(node, SequenceNode):
            for item in node.value:
                self.refuse_duplicates(item)
        elif isinstance(node, MappingNode):
            seen: dict[str, Node] = {}
            for key, value in node.value:
                if key.value in seen:
                    first = seen[key.value].start_mark.line + 1
                    raise SpecError(
                        f"{self._at(key)}: key `{key.value}` is already set in line {first}",
                        hint="keep one of the two",
                    )
                seen[key.value] = key
                self.refuse_duplicates(value)

    def _found(self, item: ErrorDetails) -> _Found:
        loc, kind = item["loc"], item["type"]
        path, node = self._node(loc)
        last = str(loc[-1]) if loc else ""
        if kind == "missing":
            return _Found((*path, last), node, f"key `{last}` is missing{_inside(path)}")
        if kind == "extra_forbidden":
            above = path[:-1]
            message = f"unknown key `{last}`{_inside(above)}"
            return _Found(path, node, message, last, _fields(self.model, above), 0)
        message = item["msg"].removeprefix("Value error, ")
        if path:
            message = f"`{_dotted(path)}`: {message[:1].lower()}{message[1:]}"
        if kind == "value_error":
            return _Found(path, node, message)
        expected = str(item.get("ctx", {}).get("expected", ""))
        wanted = tuple(word.strip("' ") for word in expected.replace(" or ", ", ").split(","))
        message += f", not {item['input']!r}"
        return _Found(path, node, message, str(item["input"]), wanted, 1 + (kind == "model_type"))

    def _node(self, loc: tuple[Step, ...]) -> tuple[tuple[Step, ...], Node]:
        """The node of a pydantic location, whose steps may be names of union members."""
        path: list[Step] = []
        node, mark = self.root, self.root
        for step in loc:
            below = _child(node, step)
            if below is not None:
                mark, node = below
                path.append(step)
        return tuple(path), mark

    def _at(self, node: Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _child(node: Node, step: Step) -> tuple[Node, Node] | None:
    """(node to point at, node to descend into)."""
    if isinstance(node, MappingNode):
        return next(((key, value) for key, value in node.value if key.value == str(step)), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _paths(found: list[_Found]) -> set[tuple[Step, ...]]:
    return {one.path for one in found}


def _deeper(one: _Found, other: _Found) -> bool:
    return len(one.path) > len(other.path) and one.path[: len(other.path)] == other.path


def _hint(found: _Found) -> str:
    near = difflib.get_close_matches(found.given, found.wanted, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    if any(found.wanted):
        return f"valid here: {', '.join(found.wanted)}"
    return _example()


def _fields(model: type[BaseModel], path: tuple[Step, ...]) -> tuple[str, ...]:
    """The keys that are valid at `path`."""
    for step in path:
        if isinstance(step, int):
            continue
        field = model.model_fields.get(step)
        below = _model_in(field.annotation) if field else None
        if below is None:
            return ()
        model = below
    return tuple(model.model_fields)


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for arg in get_args(annotation) if (m := _model_in(arg))), None)


def _dotted(path: tuple[Step, ...]) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in path).lstrip(".")


def _inside(path: tuple[Step, ...]) -> str:
    return f" in `{_dotted(path)}`" if path else ""
