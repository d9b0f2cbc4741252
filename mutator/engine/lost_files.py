"""The files of replaced partitions that are damaged: an overwrite with ``replace.damaged`` goes on without them.

Without the rows of a file, the IDs that it had are unknown. Its records are counted as deleted by absence, by the
number in the manifest, and their tombstones expire at once; the horizon is raised to the highest order value that is
known (``pipeline.accounting``).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.dataset.checksum import difference
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.partition_index import Files
from mutator.engine.runner import Runner, each_on
from mutator.errors import MutatorError
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan

_AT_ONCE = 16  # files that a task compares with their checksums


def lost_files(runner: Runner, plan: Plan) -> dict[str, str]:
    """Return the paths of damaged files, of those that the plan replaces, each with the reason.

    A data file is lost with its side file, and the other way round.
    """
    path, parts = _replaced(plan)
    tasks = [(path, parts[start : start + _AT_ONCE]) for start in range(0, len(parts), _AT_ONCE)]
    found = {name: why for one in each_on(runner)(tasks, _differing) for name, why in one}
    for part in parts:
        if part.is_data and part.order is not None:
            why = found.get(part.path) or found.get(part.order)
            found |= {} if why is None else {part.path: why, part.order: why}
    return found


def _replaced(plan: Plan) -> tuple[str, Sequence[FileEntry]]:
    """Return the directory of the master, and its files that are replaced.

    Of a master that gets its partitions in this run, it is not known which rows of a file are replaced.
    """
    if plan.master is not None:
        partitions = plan.master.partitions.items()
        return plan.master.path, [part for name, files in partitions if plan.replaces(name) for part in files.parts]
    sources = [] if plan.is_partitioned else [one.source for one in plan.inputs if one.side != "feed"]
    path = next((one.path.removesuffix(f"/{one.part.path}") for one in sources if one.part is not None), "")
    return path, [part for one in sources for part in (one.part, one.order_part) if part is not None]


def _differing(task: tuple[str, Sequence[FileEntry]], number: int, attempt: int) -> list[tuple[str, str]]:
    path, parts = task
    found = [(part.path, _difference(f"{path}/{part.path}", part.checksum)) for part in parts]
    return [(name, why) for name, why in found if why is not None]


def _difference(path: str, checksum: str) -> str | None:
    try:
        return difference(path, checksum)
    except MutatorError as fault:
        return str(fault).removeprefix(f"{path}: ")


def without_files(plan: Plan, lost: Mapping[str, str]) -> Plan:
    """Return the plan that does not read some files of the master. lost: as ``lost_files`` returns them."""
    if not lost:
        return plan
    plan = replace(plan, lost=lost)
    if plan.master is not None:
        partitions = {name: _left(files, lost) for name, files in plan.master.partitions.items()}
        return replace(plan, master=replace(plan.master, partitions=partitions))
    numbers = lost_inputs(plan, lost)

    def left(tasks: Iterable[Any]) -> Any:
        return tuple(tuple(split for split in splits if split.input not in numbers) for splits in tasks)

    return replace(plan, tasks=left(plan.tasks), local=left(plan.local))


def lost_inputs(plan: Reading, lost: Collection[str]) -> set[int]:
    """Return the numbers of the inputs that are lost files."""
    parts = {number: one.source.part for number, one in enumerate(plan.inputs)}
    return {number for number, part in parts.items() if part is not None and part.path in lost}


def lost_parts(plan: Plan, lost: Mapping[str, str]) -> list[FileEntry]:
    """Return the manifest's entries of lost files."""
    parts = _replaced(plan)[1] if plan.master is None else plan.master.parts
    return [part for part in parts if part.path in lost]


def _left(files: Files, lost: Collection[str]) -> Files:
    return Files(
        data=tuple(part for part in files.data if part.path not in lost),
        tombstones=tuple(part for part in files.tombstones if part.path not in lost),
        orders=tuple(part for part in files.orders if part.path not in lost),
    )
