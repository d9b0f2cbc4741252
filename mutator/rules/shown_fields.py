"""Which fields a report may show the values of."""

from collections.abc import Sequence
from typing import Any

from mutator.errors.quick_dataclass import dataclass


@dataclass(frozen=True)
class ShownFields:
    """Names and ordinals (as text) of fields, and whether only these are shown, or all but these."""

    named: frozenset[str] = frozenset()
    only: bool = False

    @property
    def all(self) -> bool:
        """Whether every value may be shown."""
        return not self.named and not self.only

    def show(self, labels: Sequence[Any]) -> bool:
        """Return whether a field may be shown. labels: its name, its ordinal, or both.

        >>> parse_shown(["id"]).show(["id"]), parse_shown(["id"]).show([3]), parse_shown(["-3"]).show(["id", 3])
        (True, False, False)
        """
        return self.only == any(str(label) in self.named for label in labels)

    @property
    def text(self) -> str:
        """The value in words: which fields are kept out."""
        names = ", ".join(sorted(self.named))
        return f"other fields than {names}" if self.only and names else f"the fields {names}" if names else "all fields"


def parse_shown(parts: Sequence[Any]) -> ShownFields:
    """Read the fields of a list, each with a hyphen before it if it is kept out.

    >>> parse_shown(["all"]).all, parse_shown(["none"]).show(["id"])
    (True, False)
    """
    texts = [str(part).strip() for part in parts]
    if texts in (["all"], ["none"]):
        return ShownFields(only=texts == ["none"])
    hyphens = {text.startswith("-") for text in texts}
    names = frozenset(text.removeprefix("-") for text in texts)
    if len(hyphens) != 1 or "" in names or names & {"all", "none"}:
        raise ValueError("must be all, none, the fields that are shown, or those that are not, each with - before it")
    return ShownFields(names, only=hyphens == {False})
