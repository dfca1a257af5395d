"""`ddops estimate step`, `fit`, `rank` and `field`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddops.cli.options import Json, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.analysis.cost.estimate import Estimate
    from ddops.analysis.cost.fit import Held
    from ddops.analysis.cost.predict import Fitted
    from ddops.analysis.cost.range import Range
    from ddops.analysis.cost.rank import Projected
    from ddops.report.cost import Text

estimate = typer.Typer(
    name="estimate",
    help="Reckon what a step costs, and what it would cost elsewhere. Touches no box.",
    no_args_is_help=True,
)

Budgets = Annotated[
    str, typer.Option(metavar="N,N,…", help="Sizes of the draft tree; 0 is autoregressive.")
]
Accept = Annotated[
    str | None,
    typer.Option(metavar="LOW-HIGH", help="Tokens committed a step; default what was measured."),
]
Concurrency = Annotated[int, typer.Option(min=1, help="Requests in flight.")]


@estimate.command()
def step(
    model: Annotated[str, typer.Option(help="A model that the cost model lists.")] = "kimi-k2.6",
    gpu: Annotated[str, typer.Option(help="b300, h200 or pro6000.")] = "b300",
    gpus: Annotated[int, typer.Option(min=1, help="That tensors are spread over.")] = 8,
    budgets: Budgets = "0,8,16,32",
    accept: Accept = None,
    concurrency: Concurrency = 1,
    context: Annotated[int, typer.Option(min=0, help="Cached tokens of a request.")] = 2048,
    saves: Annotated[
        float, typer.Option(metavar="MS", min=0, help="What a better engine would save a step.")
    ] = 0.0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Take a step apart: weights, experts, cache, draft, all-reduce, dispatch. With every guess.

    \b
    Example:
      ddops estimate step --gpu h200 --budgets 8,16
      ddops estimate step --budgets 32 --accept 12-16 --saves 4.5
    """
    from ddops.flows import estimate as flow
    from ddops.report.cost import step_text

    out = Output(json=json, quiet=quiet, verbose=verbose)
    wanted = flow.Wanted(_numbers(budgets), concurrency, context, _range(accept), saves / 1e3)
    made = flow.step(flow.Hardware(model, gpu, gpus), wanted)
    out.result([_data(one) for one in made], _drawn(step_text(made)))


@estimate.command()
def fit(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A run, a bundle, or a step benchmark's JSON.")
    ],
    budgets: Budgets = "0,8,16,32",
    accept: Accept = None,
    concurrency: Concurrency = 1,
    gpu: Annotated[str | None, typer.Option(help="Predict for this GPU instead.")] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fit what a step costs to measured steps, and say how wrong that is on steps it had not seen.

    \b
    Example:
      ddops estimate fit results/local-1a2b3c4d --budgets 4,64 --concurrency 8
    """
    from ddops.flows import estimate as flow
    from ddops.report.cost import fit_text

    out = Output(json=json, quiet=quiet, verbose=verbose)
    wanted = flow.Wanted(_numbers(budgets), concurrency, accept=_range(accept))
    found = flow.fit(path, wanted, gpu)
    out.result(_fitted_data(found), _drawn(fit_text(found)))


@estimate.command()
def rank(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A step benchmark's JSON, of one rank.")
    ],
    gpus: Annotated[
        str, typer.Option(metavar="GPU,GPU,…", help="Where the ranks shall be.")
    ] = "b300,pro6000",
    accept: Accept = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """From the measured step of one rank to all of them on other GPUs, beside the field record.

    The rank was timed alone, so the all-reduce is a term of its own.

    \b
    Example:
      ddops estimate rank kimi-rank.json
      ddops estimate rank kimi-rank.json --gpus b300 --accept 4.36
    """
    from ddops.flows import estimate as flow
    from ddops.report.cost import rank_text

    out = Output(json=json, quiet=quiet, verbose=verbose)
    made = flow.rank(path, gpus.split(","), _range(accept))
    out.result([_projected(one) for one in made], _drawn(rank_text(made)))


@estimate.command()
def field(json: Json = False, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Do the arithmetic of the field record's cost model again, and show where it rounded.

    \b
    Example:
      ddops estimate field
    """
    from ddops.analysis.cost.field import lines
    from ddops.report.cost import field_text

    out = Output(json=json, quiet=quiet, verbose=verbose)
    made = lines()
    data = [
        {
            "what": one.what,
            "working": one.working,
            "unit": one.unit,
            "ours": _ends(one.ours),
            "said": _ends(one.said),
            "note": one.note,
        }
        for one in made
    ]
    out.result(data, _drawn(field_text(made)))


def _drawn(text: Text) -> RenderableType:
    from rich.console import Group

    return Group(
        *(
            part if isinstance(part, str) else table(part.columns, part.rows, right=part.right)
            for part in text
        )
    )


def _numbers(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) <= 256 for word in words):
        raise UsageError(f"`{text}` are no budgets", hint="for example `--budgets 0,8,16`")
    return tuple(map(int, words))


def _range(text: str | None) -> Range | None:
    from ddops.analysis.cost.range import Range

    if text is None:
        return None
    try:
        ends = [float(word) for word in text.split("-")]
    except ValueError:
        ends = []
    if not 1 <= len(ends) <= 2 or not all(1 <= end <= 257 for end in ends):
        raise UsageError(f"`{text}` is no accept", hint="for example `--accept 4.4` or `4.4-5.8`")
    return Range.of(*ends)


def _data(one: Estimate) -> dict[str, Any]:
    from ddops.analysis.cost.unknown import UNKNOWN

    case = one.case
    return {
        "model": case.target.name,
        "gpu": case.on.name,
        "gpus": case.gpus,
        "budget": case.budget,
        "concurrency": case.concurrency,
        "context": case.context,
        "parts": [
            {"name": part.name, "seconds": _ends(part.seconds), "why": part.why}
            for part in one.parts
        ],
        "floor_s": one.floor_s,
        "step_s": _ends(one.step_s),
        "accept": _ends(one.accept),
        "tok_s": _ends(one.tok_s),
        "at_most_tok_s": one.at_most_tok_s,
        "assumptions": list(one.assumptions),
        "unknown": list(UNKNOWN),
    }


def _projected(one: Projected) -> dict[str, Any]:
    from ddops.analysis.cost.rank import UNKNOWN

    case = one.row.case
    return {
        "gpu": one.on.name,
        "budget": case.budget,
        "concurrency": case.batch,
        "context": case.context,
        "measured_step_s": one.row.step_ms / 1e3,
        "measured_floor_s": one.row.floor_ms / 1e3,
        "rank_s": _ends(one.rank_s),
        "all_reduce_s": {**(_ends(one.all_reduce_s) or {}), "why": one.why},
        "step_s": _ends(one.step_s),
        "accept": _ends(one.accept),
        "tok_s": _ends(one.tok_s),
        "record_tok_s": one.record.tok_s if one.record else None,
        "unknown": list(UNKNOWN),
    }


def _fitted_data(found: Fitted) -> dict[str, Any]:
    return {
        "source": found.observed.source,
        "gpu": found.observed.on.name if found.observed.on else None,
        "left_out": list(found.observed.left_out),
        "costs_s": dict(found.fit.costs),
        "held_out": {
            "by_cell": [_held(one) for one in found.by_cell],
            "by_concurrency": [_held(one) for one in found.by_concurrency],
        },
        "predictions": [
            {
                "budget": one.budget,
                "concurrency": one.concurrency,
                "step_s": _ends(one.step_s),
                "accept": _ends(one.accept),
                "tok_s": _ends(one.tok_s),
                "beyond": list(one.beyond),
                "why": one.why,
            }
            for one in found.predictions
        ],
    }


def _held(one: Held) -> dict[str, Any]:
    return {
        "name": one.name,
        "measured_s": one.measured_s,
        "predicted_s": one.predicted_s,
        "error": one.error,
        "beyond": list(one.beyond),
    }


def _ends(one: Range | None) -> dict[str, float] | None:
    return {"low": one.low, "high": one.high} if one else None
