"""A workflow whose target is a table compacts it while no feed file waits, and a compaction never fails a run."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mutator.cli import main
from mutator.config import parse
from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError, error
from mutator.errors.interrupts import Interrupted
from mutator.table import compact, compact_choice, idle
from mutator.workflow import to_table
from mutator.workflow.directory.results import RunOutcome
from mutator.workflow.to_table import Kept
from tests.support.table_base import TableBase, opened


@pytest.fixture(scope="module", name="made")
def new_base(tmp_path_factory: pytest.TempPathFactory) -> TableBase:
    """Return a base whose table has buckets with many files."""
    base = TableBase(tmp_path_factory.mktemp("made") / "base")
    for number in range(12):
        base.arrive(f"ups_{number}.csv", *(f"{number}{key},1,U,a" for key in range(10)))
        base.run()
    return base


@pytest.fixture(name="base")
def copy_of_base(made: TableBase, tmp_path: Path) -> TableBase:
    return TableBase.copy_of(made, tmp_path / "base")


def kinds(base: TableBase) -> list[str]:
    return [one.kind for one in base.table.refresh().log()]


def kept(base: TableBase, outcome: RunOutcome, **settings: Any) -> RunOutcome:
    return to_table.Upkeep(opened(base.table.path, **settings).target(str(base.path))).after(outcome)


def test_by_default_nothing_is_compacted(base: TableBase) -> None:
    done = kept(base, base.run())
    assert (done.compactions, done.compaction_fault) == ((), None)
    assert set(kinds(base)) == {"create", "apply"}


def test_a_tag_or_a_cleaning_does_not_make_a_table_idle(base: TableBase) -> None:
    base.table.refresh().tag("today")
    base.table.clean(keep_versions=1)
    assert kept(base, base.run(), **{"compact.after": "1h"}).compactions == ()
    assert len(kept(base, base.run(), **{"compact.after": "0s"}).compactions) == 1


def test_a_run_compacts_what_needs_it_step_by_step(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_choice, "_TASK_ROWS", 1)
    before = base.rows()
    done = kept(base, base.run(), **{"compact.after": "0s"})
    assert [report.buckets for report in done.compactions] == [1, 1]  # a version for each
    assert kinds(base)[-2:] == ["compact", "compact"]
    assert base.rows() == before
    assert "compacted 1 bucket" in done.text()
    assert json.loads(done.json())["compactions"][1]["version"] == done.compactions[1].version
    assert kept(base, base.run(), **{"compact.after": "0s"}).compactions == ()


def test_a_table_is_idle_some_time_after_the_last_apply(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(base, base.run(), **{"compact.after": "1h"}).compactions == ()
    later = time.time() + 3601
    monkeypatch.setattr(idle.time, "time", lambda: later)
    assert len(kept(base, base.run(), **{"compact.after": "1h"}).compactions) == 1


def test_nothing_is_compacted_while_a_feed_file_waits(base: TableBase) -> None:
    done = base.run()
    base.arrive("next.csv", "1,99,U,a")
    assert kept(base, done, **{"compact.after": "0s"}).compactions == ()


def test_a_feed_file_that_arrives_waits_for_one_step(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_choice, "_TASK_ROWS", 1)
    done, compact = base.run(), idle.compact_table

    def compacting(*arguments: Any, **named: Any) -> Any:
        base.arrive("next.csv", "1,99,U,a")
        return compact(*arguments, **named)

    monkeypatch.setattr(idle, "compact_table", compacting)
    assert len(kept(base, done, **{"compact.after": "0s"}).compactions) == 1


@pytest.mark.parametrize(
    ("fault", "text"),
    [(error("storage", path="there", why="is gone"), "there: is gone"), (RuntimeError("a bug"), "RuntimeError: a bug")],
)
def test_a_compaction_that_fails_is_a_warning(
    base: TableBase, monkeypatch: pytest.MonkeyPatch, fault: Exception, text: str
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise fault

    base.arrive("next.csv", "1,99,U,a")
    done = base.run()
    monkeypatch.setattr(idle, "compact_table", failing)
    after = kept(base, done, **{"compact.after": "0s"})
    assert after.version == done.version
    assert after.warnings[0].startswith(f"the compaction after it failed: {text}")
    assert after.stopped is None


def test_a_signal_during_a_compaction_ends_a_run_that_is_done(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise Interrupted(15)

    monkeypatch.setattr(idle, "compact_table", stopped)
    done = kept(base, base.run(), **{"compact.after": "0s"})
    assert done.stopped == 15
    assert done.warnings[-1] == "the compaction after it is not complete: a signal stopped it; the next one goes on"
    assert set(kinds(base)) == {"create", "apply"}


@pytest.mark.parametrize("command", [["run"], ["watch", "--interval", "0.02"]])
def test_a_signal_during_a_compaction_is_the_exit_code(
    base: TableBase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.setattr(compact, "check_signals", lambda: signal.raise_signal(signal.SIGTERM))
    words = ["--runner", "local", "-D", "claim.min.age=0s", "-D", "compact.after=0s"]
    assert main(["workflow", command[0], str(base.path), *command[1:], *words]) == 128 + signal.SIGTERM
    message = capsys.readouterr().err
    assert "the compaction after it is not complete: a signal stopped it; the next one goes on" in message
    assert "failed" not in message
    assert set(kinds(base)) == {"create", "apply"}
    monkeypatch.undo()
    assert main(["workflow", "run", str(base.path), *words]) == 0
    assert kinds(base)[-1] == "compact"
    assert base.table.verify().problems == ()


applied: Any = SimpleNamespace(version=1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def upkeep(keep: Callable[[Any], Kept]) -> tuple[to_table.Upkeep, Clock]:
    clock = Clock()
    config, table = parse({"key": 0, "compact.after": "5s"}), SimpleNamespace(keep=keep)
    target: Any = SimpleNamespace(base=None, path="", config=config, workflow_table=table)
    one = to_table.Upkeep(target, clock)
    one.seconds = lambda: None  # type: ignore[method-assign]
    return one, clock


def test_an_idle_table_is_seldom_looked_at() -> None:
    calls = list[float]()
    one, clock = upkeep(lambda _: calls.append(clock.now) or Kept(None, 60))
    for clock.now in range(100):
        assert list(one.steps()) == []
    assert calls == [0, 60]
    one.note(applied)
    for clock.now in range(100, 110):
        assert list(one.steps()) == []
    assert calls == [0, 60, 104]


def test_a_failed_compaction_is_tried_again_after_a_minute() -> None:
    calls = list[float]()

    def failing(_: Any) -> Kept:
        calls.append(clock.now)
        raise error("storage", path="there", why="is gone")

    one, clock = upkeep(failing)
    faults = 0
    for clock.now in range(100):
        try:
            assert list(one.steps()) == []
        except MutatorError:
            faults += 1
    assert (calls, faults) == ([0, 60], 2)


def test_run_and_watch_compact(base: TableBase, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-D", "claim.min.age=0s", "-D", "compact.after=0s", "--json"]
    assert main(["workflow", "run", str(base.path), *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["version"], len(printed["compactions"])) == (None, 1)
    for number in range(12, 20):
        base.arrive(f"ups_{number}.csv", *(f"{number}{key},1,U,a" for key in range(10)))
        base.run()
    newest = base.table.refresh().version
    thread = threading.Thread(target=arrive_after, args=(base, newest + 1), daemon=True)
    thread.start()
    assert main(["workflow", "watch", str(base.path), *words, "--interval", "0.02", "--runs", "1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["compactions"][0]["version"] for line in lines[:1]] == [newest + 1]
    assert [line["version"] for line in lines] == [None, newest + 2]
    assert kinds(base)[-2:] == ["compact", "apply"]


def arrive_after(base: TableBase, version: int) -> None:
    """Put a feed file in place once a version exists."""
    log = TableLog(base.table.path)
    while version not in log.numbers():
        time.sleep(0.02)
    base.arrive("last.csv", "1,999,U,a")
