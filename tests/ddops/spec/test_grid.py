"""A matrix file becomes the cells it means, the same for every spelling, or is refused by line."""

from __future__ import annotations

from textwrap import dedent

import pytest

from ddops.errors import SpecError
from ddops.spec.grid import Grid
from ddops.spec.load import parse, read
from ddops.spec.matrix import Load, Matrix, Variant
from tests.checkout import ROOT

LOAD = "load: {requests: 4, warmup: 1, max_tokens: 8}"
CELLS = "concurrency: [1, 64]"


def grid(text: str) -> Matrix:
    body = dedent(text).strip()
    rest = [line for line in (LOAD, CELLS) if f"\n{line.partition(':')[0]}:" not in f"\n{body}"]
    return parse("\n".join(["name: m", body, *rest]), Grid, "m.yaml").matrix()


def names(matrix: Matrix) -> list[str]:
    return [variant.name for variant in matrix.variants]


def rungs(matrix: Matrix) -> list[str]:
    return [f"{v.name}.{pace.rung}" for v in matrix.variants for pace in matrix.ladder(v)]


def test_axes_make_every_combination_and_a_budget_is_a_trees_alone() -> None:
    made = grid("axes: {mode: [ar, chain, ddtree], budget: [4, 8], graphs: [auto, 'off']}")
    trees = ["ddtree-b4", "ddtree-b4-eager", "ddtree-b8", "ddtree-b8-eager"]
    assert names(made) == ["ar", "ar-eager", "chain", "chain-eager", *trees]


def test_linked_values_move_together() -> None:
    made = grid(
        """
        axes: {mode: ddtree}
        linked:
          - - {budget: 8, nvls: "on"}
            - {budget: 16, nvls: "off", graphs: "off"}
        """
    )
    assert names(made) == ["ddtree-b8-nvls", "ddtree-b16-eager"]


def test_what_comes_besides_may_be_measured_at_fewer_paces() -> None:
    made = grid(
        """
        axes: {mode: ddtree, budget: [8]}
        include:
          - {mode: ar}
          - {mode: ddtree, budget: 64, name: wide, concurrency: 1}
        """
    )
    assert rungs(made) == ["ddtree-b8.c1", "ddtree-b8.c64", "ar.c1", "ar.c64", "wide.c1"]


def test_what_is_excluded_fits_all_keys_of_one_line() -> None:
    made = grid(
        """
        axes: {mode: [ar, ddtree], budget: [8, 16]}
        exclude:
          - {budget: 16, concurrency: [64]}
          - {mode: ar, concurrency: 1}
        """
    )
    assert rungs(made) == ["ar.c64", "ddtree-b8.c1", "ddtree-b8.c64", "ddtree-b16.c1"]


def test_a_variant_that_is_measured_nowhere_is_no_part_of_it() -> None:
    made = grid("axes: {mode: [ar, ddtree], budget: [8, 16]}\nexclude: [{budget: 16}]")
    assert made == grid("axes: {mode: [ar, ddtree], budget: 8}")


def test_the_fingerprint_is_that_of_the_cells_however_they_are_written() -> None:
    one = grid("axes: {mode: [ar, ddtree], budget: 8}")
    other = grid(
        """
        # a remark
        variants:
          - {mode: ar, name: ar}
          - {budget: 8, name: ddtree-b8, mode: ddtree}
        concurrency: [1,   64]
        load: {max_tokens: 8, warmup: 1, requests: 4}
        """
    )
    assert one == other
    assert one.fingerprint == other.fingerprint
    assert grid("axes: {mode: [ar, ddtree], budget: 9}").fingerprint != one.fingerprint


def test_a_matrix_of_before_keeps_its_fingerprint() -> None:
    """`run.json` of older runs has none of the later keys."""
    old = Matrix(
        name="demo",
        variants=(Variant(name="ar", mode="ar"),),
        concurrency=(1, 4),
        load=Load(requests=6, warmup=1, max_tokens=48),
    )
    assert old.fingerprint.startswith("a9a35e682ba8")
    assert Matrix.model_validate_json(old.model_dump_json()) == old


def test_three_repeats_and_a_last_look_at_the_first_cell_unless_said_otherwise() -> None:
    made = grid("axes: {mode: ar}")
    assert (made.repeats, made.again, made.order) == (3, True, "repeated")
    assert grid("axes: {mode: ar}\nrepeats: 1\nagain: false").repeats == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axes: {mode: ar, budgets: 8}", "m.yaml:2:18: unknown key `budgets` in `axes`"),
        ("axes: {mode: [ar, tree]}", "m.yaml:2:19: `axes.mode[1]`"),
        ("include: [{budget: 8}]", "a variant has no `mode`"),
        ("axes: {mode: ddtree, budget: 999}", "`budget`: Input should be less than"),
        ("variants: []", "name `variants`, `axes` or `include`"),
        ("axes: {mode: ar}\nexclude: [{budget: 8}]", "`exclude[0]` fits no cell"),
        ("axes: {mode: ar}\nexclude: [{mode: ar}]", "`exclude` leaves no cell to measure"),
        ("axes: {mode: ar}\ninclude: [{mode: ddtree, budget: 8, name: ar}]", "two variants are"),
        ("axes: {mode: ar}\ninclude: [{mode: chain, concurrency: 7}]", "`chain` wants C=7"),
        ("axes: {mode: ar}\nlinked: [[{mode: chain}]]", "two axes set `mode`"),
        ("axes: {mode: ar}\nlinked: [[{modes: chain}]]", "m.yaml:3:12: unknown key `modes`"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(SpecError) as told:
        grid(text)
    assert said in str(told.value.subject)
    assert "m.yaml:" in str(told.value.subject)


def test_the_field_records_matrix_expands_to_its_configurations() -> None:
    made = read(ROOT / "repro" / "k26-ddtree" / "matrix.yaml", Grid).matrix()
    assert names(made) == [
        "ar",
        "ddtree-b8",
        "ddtree-b8-nvls",
        "ddtree-b16-eager",
        "ddtree-b12",
        "ddtree-b16",
        "ddtree-b32",
    ]
    assert len(rungs(made)) == 21


def test_the_documented_matrix_is_one() -> None:
    text = (ROOT / "docs" / "matrix.md").read_text("utf-8")
    body = text.partition("```yaml\n")[2].partition("```")[0]
    made = parse(body, Grid, "docs/matrix.md").matrix()
    assert len(made.variants) == 13
    assert made.left_out == ("ddtree-b32-eager-ep.c64", "ddtree-b32-eager-nvls-tp.c64", "wide.c64")
