"""The definition of a setting."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mutator.config.forms import Form


@dataclass(frozen=True)
class Setting:
    """A setting. default: as text, or None if it is unset by default; then `unset` says in words what applies.

    earlier: the defaults that it had before, each by the last version of the defaults that has it. If you change the
    default of a recorded setting, add the old one here, by the number that ``newest_defaults`` returns now: earlier
    runs are explained with it.
    """

    name: str
    form: Form
    default: str | None
    meaning: str  # Markdown, with links relative to docs/
    unset: str = ""
    short: str | None = None
    option: str | None = None  # of the command line, if it has one without a short name
    help: tuple[str, str] = (
        "",
        "",
    )  # of an option with a short name: the word for its value, and its meaning in a line
    earlier: Mapping[int, str | None] = field(default_factory=dict)

    @property
    def flag(self) -> str | None:
        """The option of the command line."""
        return self.option or (None if self.short is None else "--" + self.short.replace("_", "-"))


@dataclass(frozen=True)
class Section:
    """Settings that belong together."""

    title: str
    settings: tuple[Setting, ...]
