"""How it was measured, as label and text: box, engine, model, load, commit, command. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ddops.spec.deployment import Weights
from ddops.spec.matrix import Load
from ddops.spec.record import Record
from ddops.spec.run import Run


def setup(run: Run, records: Sequence[Record]) -> tuple[tuple[str, str], ...]:
    lines = [
        ("box", _box(run)),
        ("engine", _engines(run)),
        ("model", _weights(run.found.model.name, run.found.model.weights, run.found.model.licence)),
        ("drafter", _drafter(run)),
        ("prompts", f"{run.prompts.id}, {run.prompts.count}, {run.prompts.licence} licence, "
                    f"sha256 {run.prompts.sha256[:12]}"),
        ("load", _load(run)),
        ("tokens counted", _counting(records)),
        ("client", _client(records)),
        ("matrix", f"{run.matrix.name}, fingerprint {run.fingerprint[:12]}"),
    ]  # fmt: skip
    for session in run.sessions:
        came = f"ddops {session.ddops_version}, commit {_short(session.commit) or 'of the release'}"
        began = moment(session.started_at)
        lines.append(("command", f"{' '.join(session.command)} ({began}, {came})"))
    return tuple((label, text) for label, text in lines if text)


def moment(stamp: str) -> str:
    """`2026-11-29T20:17:47+00:00` for people, as it is where it is in no such words."""
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return stamp


def _short(commit: str | None) -> str | None:
    """Twelve digits of its hash, and what follows them: `+dirty`."""
    return re.sub(r"^(\w{12})\w+", r"\1", commit) if commit else None


def fact(facts: dict[str, Any], *path: str) -> object:
    """The value at `path`, or None: facts come from boxes of any age."""
    found: object = facts
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _box(run: Run) -> str:
    facts = run.box_facts
    cores, memory = fact(facts, "system", "cores"), fact(facts, "system", "memory")
    found = fact(facts, "gpus")
    gpus = [str(fact(gpu, "name")) for gpu in found] if isinstance(found, list | tuple) else []
    parts = [
        run.box,
        f"{len(gpus)} x {gpus[0]}" if gpus else "no GPU",
        fact(facts, "system", "cpu"),
        f"{cores} cores" if cores else None,
        f"{memory / 2**30:.0f} GiB" if isinstance(memory, int) else None,
        fact(facts, "system", "os"),
    ]
    return ", ".join(str(part) for part in parts if part)


def _engines(run: Run) -> str:
    told = []
    for engine in (served.engine for served in run.served.values() if served.engine):
        info = [f"{key} {engine.info[key]}" for key in ("torch", "device", "dtype")
                if isinstance(engine.info.get(key), str)]  # fmt: skip
        told.append(", ".join([f"{engine.name} {engine.version}", *info]))
    return "; ".join(dict.fromkeys(told))


def _drafter(run: Run) -> str:
    drafter = run.found.decoding.drafter
    return _weights("", drafter, None) if isinstance(drafter, Weights) else drafter or ""


def _weights(name: str, weights: Weights, licence: str | None) -> str:
    digest = f"sha256 {weights.sha256[:12]}" if weights.sha256 else None
    parts = [name, weights.source, digest, f"{licence} licence" if licence else None]
    return ", ".join(part for part in parts if part)


def _load(run: Run) -> str:
    load = run.matrix.load
    return (
        f"{load.requests} requests a cell{_by_stream(load)} after {load.warmup} to warm up, "
        f"at most {load.max_tokens} tokens each, temperature {load.temperature:g}, "
        f"seed {load.seed}, order {run.matrix.order}{_open(run)}"
    )


def _by_stream(load: Load) -> str:
    return f" ({load.requests_a_stream} a stream if more)" if load.requests_a_stream else ""


def _open(run: Run) -> str:
    """What a load has only where the matrix asks for it."""
    load, limits = run.matrix.load, []
    if run.prompts.trace_sha256:
        limits.append(f"times of sending from sha256 {run.prompts.trace_sha256[:12]}")
    if load.settle_s or load.drain_s:
        limits.append(f"measured from {load.settle_s:g} s on to {load.drain_s:g} s before the end")
    if load.slo:
        kept = load.slo.model_dump(exclude_none=True)
        limits.append("SLO " + ", ".join(f"{key} {value:g}" for key, value in kept.items()))
    return "".join(f"; {limit}" for limit in limits)


def _counting(records: Sequence[Record]) -> str:
    ways = sorted({trace.tokens_from for record in records for trace in record.traces})
    return ", ".join(ways)


def _client(records: Sequence[Record]) -> str:
    lags = [record.client_lag_s.p99 for record in records if record.client_lag_s]
    if not lags:
        return ""
    parts = [f"its event loop woke at most {1000 * max(lags):.1f} ms late (p99)"]
    if cores := [record.client_cores for record in records if record.client_cores is not None]:
        parts.append(f"its busiest process used at most {max(cores):.2f} of a core")
    warned = sum(bool(record.warnings) for record in records)
    if warned:
        parts.append(f"{warned} of {len(records)} records say that it was too slow for their times")
    return ", ".join(parts)
