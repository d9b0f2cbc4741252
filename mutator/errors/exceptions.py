"""Errors of the closed catalogue (``*_errors``) and their exit codes.

A message says where, what, and the cure. Raise with ``raise error("output.exists", path=...)``; a kind that is not in
the catalogue is a bug. Rows that cannot be read are not errors but data (rejects): the driver decides about them.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from mutator.errors.display import one_line, printable, without_secrets
from mutator.errors.feed_errors import CHANGES, FEEDS, OVERWRITES
from mutator.errors.parts import Writers, marked, part_of, plain, quoting, said
from mutator.errors.run_errors import RUNS
from mutator.errors.table_errors import PYTHON, TABLES
from mutator.errors.version_errors import VERSIONS
from mutator.errors.workflow_errors import MANY, WORKFLOWS

Item = TypeVar("Item")
_NOTE = "(error {} of mutator)"
_PACKED = "(as JSON: {})"
_WHOLE = re.compile(r"^[ \t]*\(error [\w.]+ of mutator\)\n[ \t]*\(as JSON: (.*)\)$", re.MULTILINE)
_LAST_LINE = re.compile(
    r"\bmutator\.errors\.exceptions\.\w+: (.*?)\n" + re.escape(_NOTE).replace(r"\{\}", r"([\w.]+)"), re.DOTALL
)
_LINES = ("rows", "faults")  # fields that have several lines
SET_ASIDE_CODE = 6  # exit code of a run that committed, and set feed files aside
BUSY = ("base.busy", "base.alone")  # kinds that say that somebody else is at work


class MutatorError(Exception):
    """A fault with a message for the user, an exit code for the shell, and a kind of the catalogue for programs."""

    exit_code = 70
    kind = "bug"

    def __init__(self, message: str, fields: Mapping[str, str] | None = None) -> None:
        """Keep the message, with its parts marked, and the texts in it, by their names in the catalogue."""
        super().__init__(plain(message))
        self.message = message
        self.fields = fields or {}

    @property
    def why(self) -> str:
        """Return what is wrong, without the place if the message has it as a field."""
        return plain(self.fields.get("why", self.message))

    def say(self, writers: Writers) -> None:
        """Write the parts of the message as an audience does."""
        self.message = said(self.message, writers)
        self.args = (plain(self.message),)
        parts = {name: part_of(name, CATALOGUE[self.kind][1]) for name in self.fields}
        texts = {name: said(text, writers) for name, text in self.fields.items()}
        self.fields = {
            name: plain(writers[parts[name]](text)) if parts[name] in writers else text for name, text in texts.items()
        }

    def __reduce__(self) -> tuple[object, ...]:
        return (rebuilt, (self.kind, self.message, self.fields))


class ConfigError(MutatorError):
    """The command line or the configuration cannot be used."""

    exit_code = 2


class DataError(MutatorError):
    """The input has something that must not be merged."""

    exit_code = 3


class StorageError(MutatorError):
    """A file system refused or lost something."""

    exit_code = 4


class StateError(MutatorError):
    """Another run, or an earlier state, is in the way."""

    exit_code = 5


_FAMILIES = {one.exit_code: one for one in (ConfigError, DataError, StorageError, StateError, MutatorError)}
CATALOGUE = {
    kind: (_FAMILIES[code], marked(text))
    for errors in (RUNS, WORKFLOWS, FEEDS, OVERWRITES, CHANGES, MANY, TABLES, VERSIONS, PYTHON)
    for code, texts in errors.items()
    for kind, text in texts.items()
}


def error(kind: str, **fields: object) -> MutatorError:
    """Make the error of a kind of the catalogue.

    >>> error("output.exists", path="out").exit_code
    5
    """
    _, template = CATALOGUE[kind]
    texts = {name: value.message if isinstance(value, MutatorError) else str(value) for name, value in fields.items()}
    shown = {
        name: _shown(text, has_lines=name in _LINES or isinstance(fields[name], MutatorError))
        for name, text in texts.items()
    }
    return rebuilt(kind, template.format(**shown), texts)


def _shown(text: str, *, has_lines: bool) -> str:
    """Show a field of a message on one line, so that a file name cannot forge one; another message keeps its lines."""
    return (printable if has_lines else one_line)(without_secrets(text))


def with_others(fault: MutatorError, others: str) -> MutatorError:
    """Return an error of one file with the messages of the same kind on others, as its field ``others``."""
    return rebuilt(fault.kind, fault.message, {**fault.fields, "others": others}) if others else fault


def with_standard(fault: MutatorError, path: str) -> MutatorError:
    """Return an error of files that differ from one of the feed, its field ``standard``: that may be the odd one."""
    return rebuilt(fault.kind, fault.message, {**fault.fields, "standard": path}) if path else fault


def check_each(check: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Check some files. Raise the first error, ``with_others``: the caller may go on without all of these files."""
    faults: list[MutatorError] = []
    for item in items:
        try:
            check(item)
        except MutatorError as fault:
            faults.append(fault)
    if faults:
        same = (one.message for one in faults[1:] if one.kind == faults[0].kind)
        raise with_others(faults[0], "\n".join(same))


@contextmanager
def said_to(writers: Writers) -> Iterator[None]:
    """Write the parts of errors that are raised within a ``with`` block as an audience does."""
    try:
        yield
    except MutatorError as fault:
        fault.say(writers)
        raise


@contextmanager
def noted(notes: Iterable[str]) -> Iterator[None]:
    """Add notes to the messages of errors of the data that are raised within a ``with`` block."""
    try:
        yield
    except DataError as fault:
        raise rebuilt(fault.kind, "; ".join((fault.message, *notes)), fault.fields) from None


class suppressed:  # noqa: N801  # as contextlib's ``suppress``
    """Suppress the errors of some kinds within a ``with`` block.

    >>> with suppressed("output.exists"):
    ...     raise error("output.exists", path="out")
    """

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, fault: BaseException | None, __: object) -> bool:
        return isinstance(fault, MutatorError) and fault.kind in self._kinds


def rebuilt(kind: str, message: str, fields: Mapping[str, str] | None = None) -> MutatorError:
    """Return the error that had this text, on the other side of a pickle. fields: as in ``MutatorError``."""
    made = CATALOGUE[kind][0](message, fields)
    made.kind = kind
    return made


@contextmanager
def packed() -> Iterator[None]:
    """Let a traceback have all of an error that is raised within the ``with`` block, for ``from_traceback``.

    A traceback is all that comes back from a task of Spark that failed. No other traceback has this text.
    """
    try:
        yield
    except MutatorError as fault:
        fault.add_note(_NOTE.format(fault.kind))
        fields = {name: without_secrets(text) for name, text in fault.fields.items()}
        fault.add_note(_PACKED.format(json.dumps([fault.kind, fault.message, fields])))
        raise


def from_traceback(text: str) -> MutatorError | None:
    """Return the error whose traceback a text contains; without its parts and fields, unless it is ``packed``.

    >>> text = "… mutator.errors.exceptions.DataError: a: two\\nlines\\n(error damaged of mutator)\\n\\tat org.apache…"
    >>> from_traceback(text).kind
    'damaged'
    """
    for whole in _WHOLE.findall(text)[-1:]:
        with suppress(ValueError, TypeError, KeyError):  # the text was cut, or is of another release
            return rebuilt(*json.loads(whole))
    found = _LAST_LINE.search(text)
    return rebuilt(found[2], quoting(found[1])) if found and found[2] in CATALOGUE else None
