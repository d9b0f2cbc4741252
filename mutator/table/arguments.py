"""Check the arguments of the methods of a table; every fault names the argument, the value and what is expected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from mutator.config.parsers import age, duration
from mutator.config.sources import suggestion
from mutator.errors import error
from mutator.pipeline.arguments import path_of, wrong
from mutator.rules.version_names import FORM, is_name
from mutator.table.recorded import CALL

_Class = TypeVar("_Class")

_CONDITION = "a (column, operator, literal), as in where=[('price', '>', 5)]"


def checks_names(of: type[_Class]) -> type[_Class]:
    """Decorate a class so that an unknown argument of a public method is a ConfigError, which names the nearest one.

    A method with ``**settings`` checks them itself.
    """
    for name, method in list(vars(of).items()):
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        parameters = inspect.signature(method).parameters
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
            setattr(of, name, _checked(method, [known for known in parameters if known != "self"]))
    return of


def _checked(method: Callable[..., Any], known: Sequence[str]) -> Callable[..., Any]:
    @wraps(method)
    def called(*arguments: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                near = suggestion(name, known) or (f"; its arguments are {', '.join(known)}" if known else "")
                raise error("argument.unknown", call=f"{CALL}.{method.__name__}()", argument=name, near=near)
        return method(*arguments, **named)

    return called


def path_in(argument: str, value: Any, expected: str) -> str:
    """Return the path that is the value of an argument. Raises ConfigError."""
    path = path_of(argument, value, expected)
    if path is None:
        raise wrong(argument, value, expected)
    return path


def number_in(argument: str, value: Any, expected: str, first: int | None = None) -> None:
    """Raise ConfigError if the value of an argument is neither None nor a whole number. first: the lowest one."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and (first is None or value >= first)
    if value is not None and not is_number:
        raise wrong(argument, value, expected)


def version_in(argument: str, value: Any) -> None:
    """Raise ConfigError if the value of an argument is neither None, nor the number of a version, nor a tag."""
    if not (isinstance(value, str) and is_name(value)):
        number_in(argument, value, "the number of a version, a tag, or None for the newest")


def name_in(argument: str, value: Any) -> None:
    """Raise ConfigError if the value of an argument is not a name for a tag or a bookmark."""
    if not isinstance(value, str) or not is_name(value):
        raise wrong(argument, value, FORM)


def duration_in(argument: str, value: Any) -> int | None:
    """Return the seconds of a duration; None for None. Raises ConfigError for anything else."""
    if value is None:
        return None
    try:
        seconds = duration(value) if isinstance(value, str) else 0
    except ValueError:
        seconds = 0
    if not seconds:
        raise wrong(argument, value, "a duration such as 7d or 12h, longer than 0, or None")
    return seconds


def names_in(argument: str, value: Any) -> None:
    """Raise ConfigError if the value of an argument is neither None nor a list of names of columns."""
    if value is None:
        return
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise wrong(argument, value, "a list of names of columns, or None for all")
    for number, one in enumerate(value):
        if not isinstance(one, str):
            raise wrong(f"{argument}[{number}]", one, "the name of a column")


def filter_in(argument: str, value: Any) -> None:
    """Raise ConfigError if the value of an argument is neither None, nor text, nor a list of conditions."""
    if value is None or isinstance(value, str):
        return
    if not isinstance(value, Sequence):
        raise wrong(argument, value, f"text such as 'price > 5', or a list of conditions, each {_CONDITION}")
    for number, one in enumerate(value):
        is_condition = isinstance(one, list | tuple) and len(one) in (2, 3)
        if not is_condition or not all(isinstance(part, str) for part in one[:2]):
            raise wrong(f"{argument}[{number}]", one, _CONDITION)


def transaction_in(name: str, value: Any) -> None:
    """Raise ConfigError if an argument is not a transaction of an application."""
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    is_right = is_pair and isinstance(value[0], str) and isinstance(value[1], int) and not isinstance(value[1], bool)
    if value is not None and not (is_right and value[0] and value[1] >= 0):
        raise wrong(name, value, "the name of an application and a number from 0, such as ('orders', 7), or None")


def age_in(argument: str, value: Any) -> float:
    """Return a duration such as ``7d`` in seconds. Raises ConfigError for another value."""
    try:
        if isinstance(value, str):
            return age(value)
    except ValueError:
        pass
    raise wrong(argument, value, "a duration such as '7d', '12h' or '0s'")
