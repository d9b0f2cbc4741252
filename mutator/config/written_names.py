"""The names that the user gave to settings, for messages.

>>> renamed("set temporal.ordering.field.type=timestamp", {"temporal.ordering.field.type": "--order-type"})
'set --order-type=timestamp'
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mutator.config.definitions import SETTINGS, SHORT
from mutator.errors import MutatorError
from mutator.errors.exceptions import rebuilt

_ARGUMENTS = {name: name.replace(".", "_") for name in SETTINGS if name.islower() and "." in name}
_NAMES = "|".join(map(re.escape, sorted({*filter(str.islower, SETTINGS), *SHORT}, key=len, reverse=True)))
# A setting with a value: in quotes after -D, or a word, which the punctuation of the sentence follows.
_ASSIGNED = re.compile(rf"-D '({_NAMES})=([^']*)'|(?<![\w.'-])(?:-D )?({_NAMES})=(\w+(?:[.,/:-]\w+)*)(?!')")


def renamed(text: str, written: Mapping[str, str]) -> str:
    """Return a message with the names that the user gave to settings. written: published name to the user's.

    >>> renamed("field.names: 2 names, but field.count = 3", {"field.count": "-D field.count"})
    'field.names: 2 names, but -D field.count = 3'
    >>> renamed("use -D 'deleted.op.code=D,d'", {"deleted.op.code": "--delete-codes"})
    "use '--delete-codes=D,d'"
    """
    if not written:
        return text
    keys = "|".join(map(re.escape, sorted(written, key=len, reverse=True)))
    text = re.sub(rf"-D ('?)({keys})(?==)", lambda match: match[1] + _in_override(written[match[2]]), text)
    return re.sub(rf"(?<![\w.'-])({keys})(?![\w']|\.\w)", lambda match: written[match[1]], text)


def as_arguments(text: str) -> str:
    """Return a message with settings as the arguments of a Python call.

    >>> as_arguments("set order_type=timestamp; or, if not, run again with -D max.delete.fraction=1")
    'set order_type="timestamp"; or, if not, run again with max_delete_fraction=1'
    >>> as_arguments("up to reject.limit: use -D 'delete_codes=D,d'")
    'up to reject_limit: use delete_codes="D,d"'
    """
    text = _ASSIGNED.sub(lambda found: f"{found[1] or found[3]}={_literal(found[2] or found[4] or '')}", text)
    return renamed(text, _ARGUMENTS)


def _literal(value: str) -> str:
    if value in ("true", "false"):
        return value.capitalize()
    return value if re.fullmatch(r"\d+(\.\d+)?", value) else json.dumps(value, ensure_ascii=False)


def _in_override(name: str) -> str:
    return name if name.startswith("-") else f"-D {name}"


def preferred_names(given: Mapping[str, str], published: set[str]) -> dict[str, str]:
    """Return the names of settings for messages of a run, in the way in which the user names settings.

    given: published name to the short name or option that the user gave. published: settings given by that name.

    >>> preferred_names({"id.field.ordinals": "--key"}, set())["temporal.ordering.field.type"]
    '--order-type'
    """
    has_options = any(name.startswith("--") for name in given.values())
    others = {
        setting.name: str(setting.flag if has_options else setting.short)
        for setting in SHORT.values()
        if given and setting.name not in published
    }
    return {**others, **given}


@contextmanager
def renamed_in_errors(written: Mapping[str, str]) -> Iterator[None]:
    """Rename the settings in errors that are raised within the ``with`` block."""
    try:
        yield
    except MutatorError as fault:
        text = renamed(str(fault), written)
        if text == str(fault):
            raise
        raise rebuilt(fault.kind, text, fault.fields) from None
