"""The names that the user gave to settings, for messages.

>>> renamed("set temporal.ordering.field.type=timestamp", {"temporal.ordering.field.type": "--order-type"})
'set --order-type=timestamp'
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mutator.config.definitions import SETTINGS, SHORT
from mutator.config.forms import FLAG
from mutator.errors import MutatorError
from mutator.errors.exceptions import rebuilt

# The options that have no value, because they set a flag.
SWITCHES = {one.name: one.option for one in SETTINGS.values() if one.option is not None and one.form is FLAG}


def renamed(text: str, written: Mapping[str, str]) -> str:
    """Return a message with the names that the user gave to settings. written: published name to the user's.

    >>> renamed("field.names: 2 names, but field.count = 3", {"field.count": "-D field.count"})
    'field.names: 2 names, but -D field.count = 3'
    >>> renamed("use -D 'deleted.op.code=D,d'", {"deleted.op.code": "--delete-codes"})
    "use '--delete-codes=D,d'"
    >>> renamed("use -D 'deleted.op.code=D,d'", {"deleted.op.code": "delete_codes"})
    "use -D 'delete_codes=D,d'"
    >>> renamed("run again with -D allow.empty.feed=true", SWITCHES)
    'run again with --allow-empty'
    >>> renamed("/lake/op.code.keep=1/f.txt: needs op.code.keep", {"op.code.keep": "-D op.code.keep"})
    '/lake/op.code.keep=1/f.txt: needs -D op.code.keep'
    """
    if not written:
        return text
    keys = "|".join(map(re.escape, sorted(written, key=len, reverse=True)))
    switches = "|".join(re.escape(name) for name, option in SWITCHES.items() if written.get(name) == option)
    if switches:
        text = re.sub(rf"-D ({switches})=true(?!\w)", lambda match: written[match[1]], text)
    text = re.sub(rf"-D ('?)({keys})(?==)", lambda match: _in_override(match[1], written[match[2]]), text)
    return re.sub(rf"(?<![\w.'/-])({keys})(?![\w']|\.\w)", lambda match: written[match[1]], text)


def _in_override(quote: str, name: str) -> str:
    return f"{quote}{name}" if name.startswith("-") else f"-D {quote}{name}"


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
