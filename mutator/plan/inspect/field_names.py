"""Compare the number of names in ``field.names`` with the number of fields of a row: without a header, fields are named
by position, so a missing name would shift all names after it."""

from collections.abc import Sequence

from mutator.errors import MutatorError, error
from mutator.errors.display import counted


def other_number_of_names(path: str, what: str, names: Sequence[str], *, single: bool = False) -> MutatorError:
    """Return the error of names that are fewer or more than the fields of a row.

    what: how many fields are where, for the message. single: a row has a single field, which suggests that the
    delimiter is wrong.
    """
    cure = "give field.names a name for each field of a feed row, or correct field.delim.regex"
    if single:
        cure = "set field.delim.regex to the delimiter of its fields, or correct field.names"
    names_shown = f"field.names has {counted(len(names), 'name')} ({', '.join(names)})"
    return error("width", where=path, what=f"{what}, and {names_shown}", cure=cure)
