"""Settings that do not fit the files of a run: a check finds all of them before it raises an error."""

from collections.abc import Iterable

from mutator.errors import error
from mutator.errors.display import one_line
from mutator.errors.parts import setting

Fault = tuple[str, str, str]  # the setting, the fault, the cure


def raise_all(faults: Iterable[Fault]) -> None:
    """Raise ConfigError for faults, if there are any.

    >>> raise_all([("null.order", "has no meaning for delimited text", "leave it out")])
    Traceback (most recent call last):
    mutator.errors.exceptions.ConfigError: null.order: has no meaning for delimited text; leave it out
    """
    found = list(dict.fromkeys(faults))
    if len(found) == 1:
        where, what, cure = found[0]
        raise error("width", where=setting(where), what=what, cure=cure)
    if found:
        lines = [one_line(f"{setting(where)}: {what}; {cure}") for where, what, cure in found]
        raise error("config", where="the configuration", faults="\n  ".join(["does not fit the data:", *lines]))
