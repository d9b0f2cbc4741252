"""Every command, with every file of a table lost, damaged or foreign: the right result, or an error that names it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mutator.errors import MutatorError
from mutator.table.recorded import config_of_snapshot
from mutator.table.table import Table
from mutator.table.verify import verify_table
from tests.support.damaged_tables import (
    BY_NAME,
    COMMANDS,
    DAMAGES,
    ROLES,
    SETTINGS,
    Spot,
    files_of,
    new_table,
    small_files,
)
from tests.support.effort import share
from tests.support.versioned import open_runner

TWIN = {"one": "eno", "two": "owt", "six": "xis"}  # names of the same lengths, so that files have the same sizes


@dataclass(frozen=True)
class World:
    """A table, a twin with other rows in files of the same sizes, and the result of each command."""

    table: Path
    twin: Path
    feed: str
    work: Path

    def copied(self) -> Path:
        """Return a new copy of the table, at the same path as every other copy."""
        place = self.work / "place"
        shutil.rmtree(place, ignore_errors=True)
        return Path(shutil.copytree(self.table, place))

    def result(self, command: str, place: Path) -> Any:
        return COMMANDS[command](str(place), self.feed)

    def result_or_fault(self, command: str, place: Path) -> tuple[Any, MutatorError | None]:
        try:
            return self.result(command, place), None
        except MutatorError as fault:
            return None, fault


@pytest.fixture(scope="module", name="worlds")
def new_worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, World]]:
    with small_files():
        found = {}
        for order, settings in (("field", SETTINGS), ("file name", BY_NAME)):
            work = tmp_path_factory.mktemp(order.replace(" ", "_"))
            table, twin = new_table(work, "own", settings), new_table(work, "twin", settings, TWIN)
            found[order] = World(table, twin, str(work / "own/next_9.parquet"), work)
        yield found


def spots(world: World, role: str, damage: str, place: Path, seed: int) -> Iterator[Spot]:
    own, twin = files_of(world.table, role), files_of(world.twin, role)
    for number, file in enumerate(own):
        rng = random.Random(f"{role} {damage} {number} {seed}")
        yield Spot(place / file.relative_to(world.table), own[number - 1] if len(own) > 1 else None, twin[number], rng)


@pytest.mark.thorough(keep=2, rest=12)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("order", ["field", "file name"])
def test_the_result_is_right_or_the_error_names_the_file(
    worlds: dict[str, World], order: str, role: str, command: str
) -> None:
    world = worlds[order]
    truth = world.result(command, world.copied())
    cases = [(damage, seed) for damage in DAMAGES for seed in range(share(20) if damage in ("flip", "cut") else 1)]
    for damage, seed in cases:
        for number in range(len(files_of(world.table, role))):
            place = world.copied()
            spot = list(spots(world, role, damage, place, seed))[number]
            DAMAGES[damage](spot)
            found, fault = world.result_or_fault(command, place)
            if fault is None:
                assert found == truth, (damage, spot.path.name, seed)
                continue
            assert fault.kind in (
                "table.file",
                "table.log.damaged",
                "table.log.archive",
                "table.log.lost",
                "table.log.other",
            )
            assert str(place) in str(fault)
            assert spot.path.name in str(fault), (damage, seed)
            if command == "apply_feed":
                assert not (place / "_mutator/table/log/00000000000000000004.json").exists()


@pytest.mark.thorough(keep="data")
@pytest.mark.parametrize("role", ROLES)
def test_verify_finds_every_damage(worlds: dict[str, World], role: str) -> None:
    world = worlds["field"]
    for damage in DAMAGES:
        for number, _ in enumerate(files_of(world.table, role)):
            place = world.copied()
            spot = list(spots(world, role, damage, place, 0))[number]
            before = spot.path.read_bytes()
            DAMAGES[damage](spot)
            if spot.path.exists() and spot.path.read_bytes() == before:
                continue
            problems = verify_table(str(place), config_of_snapshot, open_runner).problems
            needless = role == "checkpoint" and damage == "lose" and number == 0  # the hint names a later one
            assert needless or [one for one in problems if spot.path.name in one], (damage, spot.path.name, problems)


def test_an_older_hint_does_not_hide_newer_versions(worlds: dict[str, World]) -> None:
    world = worlds["field"]
    place = world.copied()
    table = Table(str(place))
    before = {path: path.read_bytes() for path in place.glob("_mutator/table/hint.json")}
    table.apply(world.feed, open_runner=open_runner)
    for path, content in before.items():
        path.write_bytes(content)
    assert Table(str(place)).version == 4


def test_a_lost_newest_entry_that_the_hint_names_is_an_error(worlds: dict[str, World]) -> None:
    place = worlds["field"].copied()
    newest = files_of(place, "log")[-1]
    newest.unlink()
    with pytest.raises(MutatorError, match=rf"{newest.name}.*hint.json") as fault:
        Table(str(place))
    assert fault.value.kind == "table.log.lost"


def test_a_lost_newest_entry_of_which_a_checkpoint_exists_is_an_error(worlds: dict[str, World]) -> None:
    world = worlds["field"]
    place = world.copied()
    Table(str(place)).apply(world.feed, open_runner=open_runner)  # version 4 has a checkpoint
    (place / "_mutator/table/hint.json").unlink()
    newest = max((place / "_mutator/table/log").iterdir())
    newest.unlink()
    with pytest.raises(MutatorError, match=rf"{newest.name}.*checkpoints/0*4-") as fault:
        Table(str(place))
    assert fault.value.kind == "table.log.lost"


def test_the_hint_and_the_checkpoints_of_another_table_are_not_used(worlds: dict[str, World]) -> None:
    world = worlds["field"]
    place = world.copied()
    truth = world.result("scan", place)
    for name in ("hint.json", "checkpoints"):
        path = place / "_mutator/table" / name
        if path.is_dir():
            shutil.rmtree(path)
            shutil.copytree(world.twin / "_mutator/table" / name, path)
        else:
            shutil.copyfile(world.twin / "_mutator/table" / name, path)
    _, fault = world.result_or_fault("scan", place)
    assert fault is not None  # it cannot be known whether the hint or the entry is foreign
    assert (fault.kind, "hint.json" in str(fault)) == ("table.log.other", True)
    (place / "_mutator/table/hint.json").unlink()
    assert world.result("scan", place) == truth


def test_the_newest_entry_of_a_copy_that_went_on_is_not_taken(worlds: dict[str, World], tmp_path: Path) -> None:
    world = worlds["field"]
    place = world.copied()
    fork = shutil.copytree(place, tmp_path / "fork")
    for path, feed in ((place, "own"), (fork, "twin")):
        Table(str(path)).apply(str(world.work / feed / "next_9.parquet"), open_runner=open_runner)
    name = "_mutator/table/log/00000000000000000004.json"
    shutil.copyfile(fork / name, place / name)
    with pytest.raises(MutatorError, match=r"00004.json.*hint.json") as fault:
        Table(str(place))
    assert fault.value.kind == "table.log.other"
