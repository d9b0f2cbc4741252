"""The definition of a setting, and of the attribute that has its value."""

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from mutator.config.forms import Form


class Section(NamedTuple):
    """Settings that belong together. decides: about how a feed is read and merged, so each run records them."""

    title: str
    decides: bool = False


RECORDS = Section("Records and their order", decides=True)
DELETES = Section("Deletes and replacements", decides=True)
FIELDS = Section("Rows and fields", decides=True)
FORMATS = Section("Formats", decides=True)
PARTITIONS = Section("Partitions", decides=True)
ACCEPTED = Section("What a run accepts")
WORKFLOW = Section("Workflow")
REPORTS = Section("Reports")
SPEED = Section("Speed")
REFERENCE = (RECORDS, DELETES, FIELDS, FORMATS, PARTITIONS, ACCEPTED, WORKFLOW, REPORTS, SPEED)


class Setting(NamedTuple):
    """A setting. default: as text, or None if it is unset by default; then `unset` says in words what applies.

    decides: even if its section does not. earlier: its old defaults, keyed by the last version of the defaults
    that had them. If you change the default of a setting that decides, add the old one here, by the number that
    ``newest_defaults`` returns now: earlier runs are explained with it.
    """

    section: Section
    name: str
    form: Form
    default: str | None
    meaning: str  # Markdown, with links relative to docs/
    unset: str = ""
    short: str | None = None
    option: str | None = None  # of the command line, if it has one without a short name
    help: tuple[str, str] = ("", "")  # of an option with a short name: the word for its value, its meaning in a line
    decides: bool = False
    earlier: Mapping[int, str | None] = MappingProxyType({})

    @property
    def flag(self) -> str | None:
        """The option of the command line."""
        return self.option or (None if self.short is None else "--" + self.short.replace("_", "-"))

    @property
    def is_recorded(self) -> bool:
        """Return whether each run records the setting."""
        return self.decides or self.section.decides

    def by_default(self, otherwise: Any = None, version: int | None = None) -> Any:
        """Return the value of the setting if it is not given.

        otherwise: without a default. version: of the defaults; None: the present one.
        """
        known = [number for number in self.earlier if version is not None and version <= number]
        default = self.earlier[min(known)] if known else self.default
        return otherwise if default is None else self.form.parse(default)


def attribute(setting: Setting, otherwise: Any = None) -> Any:
    """Declare the attribute of a setting. otherwise: its value if the setting has no default and is not given."""
    metadata = {"setting": setting, "otherwise": otherwise}
    return field(default=setting.by_default(otherwise), metadata=metadata)


def defined(*definition: Any, otherwise: Any = None, **more: Any) -> Any:
    """Define a setting, and declare its attribute. The arguments are those of ``Setting`` and of ``attribute``."""
    return attribute(Setting(*definition, **more), otherwise)


def settings_of(spec: Any) -> Iterator[Setting]:
    """Yield the settings of a spec in their order: of its attributes, and those that no attribute has."""
    attributes = {one.name: one.metadata.get("setting") for one in fields(spec)}
    for name in spec.__annotations__:
        found = attributes.get(name) or getattr(spec, name, None)
        if isinstance(found, Setting):
            yield found
