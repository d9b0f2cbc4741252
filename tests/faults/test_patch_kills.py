"""Kills (SIGKILL) of merges with patches at random instants: what the next one leaves is that of the model."""

from __future__ import annotations

import random
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.laws.test_patch_laws import FIELDS, world
from tests.support import local_engine
from tests.support.child_process import killed_after
from tests.support.effort import share
from tests.support.patch_runs import TEXT, Directory
from tests.support.patch_tables import BY_PARTITION, VersionedTable
from tests.support.versioned import open_runner

pytestmark = [pytest.mark.rest, pytest.mark.processes]


class Killer:
    """Kills an action at instants spread over the time that it takes."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._seconds = rng, 0.2
        self.killed = 0

    def __call__(self, act: Any) -> Any:
        """Let an action be killed, or end, in a child process; then do it here."""
        self.killed += not killed_after(act, self._rng.uniform(0, self._seconds))
        started = time.monotonic()
        found = act()
        self._seconds = time.monotonic() - started
        return found


def merged(killer: Killer, settings: Any, output: str, **places: Any) -> Any:
    """Merge into an output that a run may have left which was killed after it had published it."""

    def act() -> Any:
        if Path(output).exists():
            assert local_engine.verify(output).differences == ()
            shutil.rmtree(output)
        return local_engine.mutate(settings, output=output, **places)

    return killer(act)


@pytest.mark.parametrize("unknown", ["insert", "wait", "reject"])
def test_a_run_after_a_killed_one_gives_what_the_model_gives(unknown: str, tmp_path: Path) -> None:
    rng = random.Random(unknown)
    killer = Killer(rng)
    for number in range(share(60)):
        master, runs = world(rng)
        work = tmp_path / str(number)
        work.mkdir()
        place = Directory(work, FIELDS, TEXT, unknown, on=partial(merged, killer))
        place.start(master)
        for rows in filter(None, runs):
            place.run(rows, rng)
    assert killer.killed > number


@pytest.mark.parametrize("unknown", ["insert", "wait"])
@pytest.mark.parametrize("settings", [{}, BY_PARTITION], ids=["plain", "partitions"])
def test_an_apply_after_a_killed_one_gives_what_the_model_gives(
    settings: dict[str, str], unknown: str, tmp_path: Path
) -> None:
    """An apply that was killed after its commit counts as done: the next one knows the files."""
    rng = random.Random(f"{unknown} {len(settings)}")
    killer = Killer(rng)
    for number in range(share(60)):
        master, runs = world(rng)
        work = tmp_path / str(number)
        work.mkdir()
        place = VersionedTable(work, FIELDS, settings, unknown)
        for rows in filter(None, [master, *runs]):
            files = place.feed(rows, rng)
            killer(partial(place.apply, files))
            place.model.run(rows)
            place.check()
            if rng.random() < 0.3:
                killer(place.compact)
        assert place.table.verify(open_runner=open_runner).problems == ()
    assert killer.killed > number
