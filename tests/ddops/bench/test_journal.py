"""The folder of a run: what is done stays as it is, what failed is kept."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from ddops.bench.journal import Found, Journal, unrestored
from ddops.errors import BenchError, SpecError
from tests.ddops.records import cells as cells_of
from tests.ddops.records import deployment, failed, invalid, matrix, record, run

OF = matrix()
CELL = cells_of(OF)[0]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.of(tmp_path, OF)


def names(journal: Journal) -> list[str]:
    return sorted(path.name for path in journal.folder.iterdir())


def test_the_folder_is_named_after_what_is_measured(journal: Journal) -> None:
    assert journal.folder.name == f"demo-{OF.fingerprint[:8]}"
    assert Journal.of(journal.folder.parent, matrix(repeats=2)).folder != journal.folder


def test_a_good_record_is_read_back_as_it_was(journal: Journal) -> None:
    assert journal.record(CELL) is None
    journal.add(record(CELL, OF))
    assert journal.record(CELL) == record(CELL, OF)
    assert names(journal) == ["ar.c1.r1.json"]


def test_a_good_record_is_never_written_twice(journal: Journal) -> None:
    path = journal.add(record(CELL, OF))
    before = path.read_bytes()
    with pytest.raises(BenchError, match="exists already"):
        journal.add(record(CELL, OF, command=("another",)))
    assert path.read_bytes() == before


def test_failures_and_red_gates_are_kept_beside_each_other(journal: Journal) -> None:
    journal.add(failed(CELL, OF))
    journal.add(invalid(CELL, OF))
    for _ in range(9):
        journal.add(failed(CELL, OF))
    assert journal.record(CELL) is None
    assert {"ar.c1.r1.failure.json", "ar.c1.r1.failure-2.json"} <= set(names(journal))
    journal.add(invalid(CELL, OF))
    latest = journal.latest(CELL)
    assert latest is not None
    assert latest.failure is None  # number 12, after 10 and 11


def test_a_later_success_leaves_the_failure_where_it_is(journal: Journal) -> None:
    path = journal.add(failed(CELL, OF))
    before = path.read_bytes()
    journal.add(record(CELL, OF))
    assert path.read_bytes() == before
    latest = journal.latest(CELL)
    assert latest is not None and latest.ok


def test_a_damaged_record_is_named(journal: Journal) -> None:
    path = journal.add(record(CELL, OF))
    path.write_text(path.read_text("utf-8").replace('"window_s"', '"windows"'), "utf-8")
    with pytest.raises(SpecError, match=r"ar\.c1\.r1\.json: ") as told:
        journal.record(CELL)
    assert "move the file away" in str(told.value.hint)


def test_what_was_found_is_known_until_it_is_restored(journal: Journal) -> None:
    out = journal.folder.parent
    assert unrestored(out) == []
    found = Found(box="local", deployment=deployment(OF.variants[0]), running=True)
    journal.keep_found(found)
    assert [left.found for left in unrestored(out)] == [found]
    journal.restored()
    journal.restored()
    assert unrestored(out) == []


def test_run_json_is_rewritten_whole(journal: Journal) -> None:
    journal.keep_run(run(OF))
    journal.keep_run(run(OF))
    assert journal.run == run(OF)
    assert names(journal) == ["run.json"]


def _hold(folder: Path, ready: multiprocessing.synchronize.Event) -> None:
    with Journal(folder).locked():
        ready.set()
        multiprocessing.Event().wait(30)


def test_two_benches_do_not_write_to_one_folder(journal: Journal) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    other = context.Process(target=_hold, args=(journal.folder, ready))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(BenchError, match="another `ddops bench`"), journal.locked():
            pass
    finally:
        other.kill()
        other.join()
    with journal.locked():
        pass
