"""The record of the runs of partitions, ``_partition_runs.json``: it resumes a stopped loop, and stays in the output.

There it names every partition, so a master that lacks one of them is recognized.
"""

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from mutator.dataset import checksummed_json
from mutator.errors import MutatorError, error
from mutator.rules import file_names
from mutator.rules.partition_paths import directory_of, values_of
from mutator.storage import read_if_exists

_NAME, _FORMAT, _VERSION = "_partition_runs.json", "mutator partition runs", 1


def record_path(directory: str) -> str:
    """Return the path of the record in a directory of partitions."""
    return posixpath.join(directory, _NAME)


def read_record(directory: str) -> dict[str, Any] | None:
    """Return the record in a directory; None if it has none. Raises ValueError if it is damaged or newer."""
    data = read_if_exists(record_path(directory))
    return None if data is None else checksummed_json.parse(data, _FORMAT, _VERSION)


def record_content(inputs: Mapping[str, Any], runs: Sequence[Mapping[str, Any]] | None) -> bytes:
    """Return a record as JSON. runs: of all partitions; None as long as some are missing."""
    return checksummed_json.dump(_FORMAT, _VERSION, {"inputs": dict(inputs), "partitions": runs})


def check_partitions(master: str, directories: Collection[str]) -> None:
    """Raise StateError if a master that a loop wrote lacks a partition.

    directories: those of its partitions, in canonical spelling.
    """
    try:
        record = read_record(master)
        made = canonical(run["directory"] for run in (record or {}).get("partitions") or ())
    except (ValueError, KeyError, TypeError) as fault:
        raise error("partition.record", path=record_path(master), why=fault) from None
    if lost := made - set(directories):
        raise lost_partitions(master, lost, "mutator partition-runs", _NAME)


def canonical(directories: Iterable[str]) -> set[str]:
    """Return the directories of partitions in canonical spelling. Raises ValueError."""
    found = map(values_of, directories)
    return {directory_of([name for name, _ in values], [value for _, value in values]) for values in found}


def lost_partitions(master: str, lost: Collection[str], writer: str, record: str) -> MutatorError:
    """Return the error of a master without partitions that it had. record: the file that names them."""
    return error(
        "partition.lost", path=master, partitions=file_names.first_few(sorted(lost)), writer=writer, record=record
    )
