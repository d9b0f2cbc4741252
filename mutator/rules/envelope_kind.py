"""What is known of an envelope before the values of settings are.

``init`` recognizes files by it, and the guard of a forgotten setting does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mutator.rules.envelope import Envelope

DIALECT = "feed.dialect"  # the setting that chooses one of messages, or of rows of another program
KEY_FILES = "key_files"  # of the members of envelopes whose messages may have keys in files of their own
OF_TABLES = {"table": "table", "others": "others"}  # members of those whose rows say their table
# Returns whether a file is of a dialect. Its arguments: the paths of its fields, and a function that returns the first
# values of one
Recognizes = Callable[[Sequence[str], Callable[[str], Sequence[bytes | None]]], bool]


class Traces(NamedTuple):
    """What files of a dialect show, beside what their rows do."""

    inserts: tuple[str, ...] = ()  # codes of rows that insert records; those of a snapshot first
    around: tuple[str, ...] = ()  # the fields of messages around a row, which are none of the record
    null: str = ""  # the text of NULL in delimited files, unless the program that writes them has another one
    stamps: str = ""  # pattern of the texts in a field that users can add, which order rows exactly
    key_file: str = ""  # beside the files: JSON with the fields of the ID
    loads: str = ""  # pattern of the names of files whose rows do not say what they do, and are upserts
    head: tuple[str, ...] = ()  # the first fields of files without a header
    forms: Mapping[str, str] = {}  # field -> pattern of its values, where codes are not enough to recognize a file
    headless: str = ""  # pattern of the names of these files, which may be recognized by the values of fields alone


class EnvelopeKind(NamedTuple):
    """An envelope, before the values of settings are known."""

    # Makes it of the field and the codes, as ``OpCodeField`` has them
    made: Callable[..., Envelope]
    setting: str  # that chooses it
    decides: Mapping[str, str] = {}  # other settings and their values, which a user must not set
    why: str = ""  # a part of a message: what is true of each row, so that nothing else decides it
    members: Mapping[str, str] = {}  # others that it is made of: name -> attribute of ``OpSpec``
    formats: tuple[str, ...] = ()  # of the files that it reads; (): all
    usual: Mapping[str, str] = {}  # other settings, and their values unless a user sets them
    leaves_unset: bool = False  # rows may leave fields unset, whatever the settings are
    by_sequence: bool = False  # the sequences in the names of the files are a part of its order
    recognizes: Recognizes | None = None
    traces: Traces = Traces()


def made_by(module: str, name: str, **own: Any) -> Callable[..., Envelope]:
    """Return a function that makes an envelope. module: of its class, which is imported once it is needed."""

    def made(**members: Any) -> Envelope:
        found: Envelope = getattr(import_module(f"mutator.rules.{module}"), name)(**own, **members)
        return found

    return made
