"""The report of a run, with the paths at which its files are after the run."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from mutator.rules import file_names
from mutator.workflow.directory import claim

Report = TypeVar("Report")


def with_paths(report: Report, moved: Mapping[str, str]) -> Report:
    """Return a report, which is a dataclass, with other directories in its paths, and without ready markers.

    moved: the directories that change.
    """
    found = {part.name: getattr(report, part.name) for part in fields(report)}  # type: ignore[arg-type]
    found["ignored"] = tuple(path for path in found["ignored"] if not claim.is_own(file_names.base_name(path)))
    for old, new in moved.items():
        found = with_directory(found, old, new)
    return replace(report, **found)  # type: ignore[type-var]


def with_directory(value: Any, old: str, new: str) -> Any:
    """Return a value with another directory in all its paths.

    >>> with_directory({"feed": ("working/7/ups_1.csv",)}, "working/7", "archive/7")
    {'feed': ('archive/7/ups_1.csv',)}
    """
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        made = {name: with_directory(part, old, new) for name, part in value.items()}
        return made if type(value) is dict else type(value)(made)  # type: ignore[call-arg]
    if isinstance(value, list | tuple):
        return type(value)(with_directory(part, old, new) for part in value)
    return value
