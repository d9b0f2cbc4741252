"""The cure for a missing key, where the manifest of the master has one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mutator.config.sources import shown
from mutator.errors import MutatorError
from mutator.errors.display import one_line
from mutator.errors.exceptions import said_to
from mutator.errors.parts import CURE
from mutator.pipeline.master_settings import recorded_settings


def key_of_manifest(master: str, written: Callable[[str, Any], str]) -> str:
    """Return a clause with the settings that the manifest of a master has; "" if it has none.

    written: returns a setting as the user writes it, given its name in files and its value.
    """
    found: dict[str, Any] = {}
    with suppress(MutatorError):  # the missing key is the first thing to cure
        found = recorded_settings(master, {})
    if "key" not in found:
        return ""
    values = ", ".join(written(name, value) for name, value in found.items())
    if "op" in found:
        return f"the manifest of the master has {values}: give them"
    ordinals = any(isinstance(field, int) for field in found["key"])
    return (
        f"the manifest of the master has {values}: give them, and op if the feed has op codes"
        f"{' (the ordinals are those of rows without op codes)' if ordinals else ''}"
    )


@contextmanager
def key_of_manifest_in_errors(master: str) -> Iterator[None]:
    """Add the key of the manifest to a ConfigError of a missing key that is raised within the ``with`` block."""

    def cure(_: str) -> str:
        known = key_of_manifest(master, lambda name, value: one_line(f"{name}={shown(value)}"))
        return f"; {known}" if known else ""

    with said_to({CURE: cure}):
        yield
