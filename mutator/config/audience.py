"""Audiences of messages, each of which has its own names for settings: the command line, a file, or Python.

>>> from mutator.errors.parts import plain, setting
>>> message = f"set {setting('temporal.ordering.field.type=timestamp')}"
>>> for audience in (Audience({"temporal.ordering.field.type": "--order-type"}), PYTHON):
...     print(plain(audience(message)))
set --order-type=timestamp
set order_type="timestamp"
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field

from mutator.config.definitions import OF_FIELDS, SETTINGS, SHORT
from mutator.config.forms import FLAG
from mutator.errors.display import OUT, in_quotes, printable, without_quotes
from mutator.errors.parts import (
    END,
    MERGED,
    OPTION,
    PATH,
    QUOTED_BEGIN,
    QUOTES,
    SETTING,
    VALUE,
    Writers,
    quoted_word,
    said,
    setting,
    without_marks,
)
from mutator.errors.quick_dataclass import dataclass

# The options that have no value, because they set a flag.
SWITCHES = {one.name: one.option for one in SETTINGS.values() if one.option is not None and one.form is FLAG}
_ARGUMENTS = {name: one.short or name.replace(".", "_") for name, one in SETTINGS.items()}
# How, whether a word of a command, name, sign, value.
_PART = re.compile(rf"(-D )?({QUOTED_BEGIN})?(.+?)(?:( ?= ?)(.*?))?(?(2){END})", re.DOTALL)
_HIDDEN = re.compile(f"(?:-D {QUOTED_BEGIN})?([^=]+)={re.escape(in_quotes(OUT))}{END}?")  # must not be shown
_OPTION = re.compile(r"--([\w-]+)(?: ('?)([^,]*)\2)?(?:, .*)?")
_LITERALS = {"true": "True", "false": "False", "true or false": "True or False"}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Audience:
    """Who reads the messages of a run.

    names: published name of a setting to the one that the user gave. python: all others are arguments. merged: what a
    run merges into, if not the master. hides: values of rows; of the text of another program or a task, all that it
    quotes. paths: rewrites a path for this reader.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    python: bool = False
    merged: str | None = None
    hides: bool = False
    paths: Callable[[str], str] = str

    def __reduce__(self) -> tuple[object, ...]:
        return Audience, (self.names, self.python, self.merged, self.hides)  # tasks write no paths

    def __call__(self, text: str) -> str:
        """Write the parts of a message."""
        return said(text, self.writers)

    @property
    def writers(self) -> Writers:
        """What writes each kind of part."""
        found: dict[str, Callable[[str], str]] = {SETTING: self._setting}
        if self.paths is not str:
            found[PATH] = self.paths
        if self.python:
            found[OPTION] = _option
        if self.merged is not None:
            found[MERGED] = lambda _: str(self.merged)
        if self.hides:
            found[VALUE] = lambda _: in_quotes(OUT)
            found[QUOTES] = lambda text: without_quotes(text, OUT)
        return found

    def _setting(self, text: str) -> str:
        """Write a setting, with its value or alone; an argument is final.

        >>> from mutator.errors.parts import option, plain, value_of_rows
        >>> line = Audience({"deleted.op.code": "--delete-codes", **SWITCHES})
        >>> codes = option("deleted.op.code", "D,d")
        >>> print(PYTHON(codes), PYTHON(setting("allow.empty.master=true")), PYTHON(setting("default.price")))
        delete_codes="D,d" allow_empty_master=True default["price"]
        >>> print(*map(plain, map(line, (codes, setting("-D allow.empty.feed=true"), setting("sync.mode")))))
        '--delete-codes=D,d' --allow-empty sync.mode
        >>> print(plain(Audience(hides=True)(option("upsert.op.code", value_of_rows("D,d")))))
        upsert.op.code with the values that report.fields hides
        """
        if hidden := _HIDDEN.fullmatch(text):
            return f"{self._setting(hidden[1])} with the values that {self._setting('report.fields')} hides"
        match = _PART.fullmatch(text)
        if match is None:
            return text
        how, is_word, name, sign, value = (part or "" for part in match.groups())
        new = self.names.get(name)
        if new is None and self.python:
            value = value if is_word else value.removeprefix("'").removesuffix("'")
            return f"{_argument(name)}={_literal(value)}" if sign else _argument(name)
        if new is None:
            return setting(text)
        if value == "true" and SWITCHES.get(name) == new:
            return new
        written = f"{new}{sign}{value}"
        return setting(("" if new.startswith("-") else how) + (quoted_word(written) if is_word else written))


PYTHON = Audience(python=True)


def _argument(name: str) -> str:
    """Return the name of an argument.

    >>> _argument("id.field.ordinals"), _argument("order_by"), _argument("default.price")
    ('key', 'order_by', 'default["price"]')
    """
    for prefix in OF_FIELDS:
        if name.startswith(prefix):
            return f"{prefix[:-1].replace('.', '_')}[{_literal(name.removeprefix(prefix))}]"
    return _ARGUMENTS.get(name, name)


def _option(text: str) -> str:
    """Write an option of the command line as an argument; leave out what says more of the command line.

    >>> _option("--feed 'DIR/part-*'"), _option("--master, or first in IN_PATHS"), _option(" (--partitioned-by FIELDS)")
    ('feed="DIR/part-*"', 'master', '')
    """
    match = _OPTION.fullmatch(text)
    if match is None:
        return ""
    return match[1] if match[3] is None else f"{match[1]}={_literal(match[3])}"


def _literal(value: str) -> str:
    value = without_marks(value)
    known = value if _NUMBER.fullmatch(value) else _LITERALS.get(value)
    return known or printable(json.dumps(value, ensure_ascii=False))


def preferred_names(given: Mapping[str, str], published: set[str], *, in_file: bool = True) -> dict[str, str]:
    """Return the names of settings for messages of a run, in the way in which the user names settings.

    They are the published ones only for those who use one that has a short name, and no short name.

    given: published name to the short name or option that the user gave. published: settings given by that name.
    in_file: whether there is a file of settings.

    >>> preferred_names({"id.field.ordinals": "--key"}, set())["temporal.ordering.field.type"]
    '--order-type'
    >>> preferred_names({}, {"sync.mode"})["id.field.ordinals"], preferred_names({}, {"id.field.ordinals"})
    ('key', {})
    """
    has_options = any(name.startswith("--") for name in given.values()) or not (given or in_file)
    others = {one.name: str(one.flag if has_options else one.short) for one in SHORT.values()}
    if not given and others.keys() & published:
        return {}
    return {**{name: short for name, short in others.items() if name not in published}, **given}
