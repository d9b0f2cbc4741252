"""A place whose key is explained, as the walk over its versions asks it; and the key, with the types of its fields."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from mutator import config as configuration
from mutator.config import Config
from mutator.config.feed_settings import as_recorded
from mutator.config.settings import TextSpec
from mutator.dataset.commits import Commit, FeedFile
from mutator.dataset.state import State
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.avro_schema import expanded, to_arrow
from mutator.pipeline.explain.chain import ChainStep
from mutator.pipeline.explain.feed_reading import feed_reading, survey_of_master
from mutator.pipeline.explain.held import ByPartition, held_in, held_in_unmanaged
from mutator.pipeline.explain.key import Key, WantedKey, key_values, typed_key
from mutator.pipeline.explain.key_decisions import NOTHING, KeyMutation
from mutator.plan.inspect.headers import recorded_header
from mutator.plan.inspect.managed import dataset_schema
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import Reading
from mutator.plan.registers import register_of
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.absences import absences_of
from mutator.rules.order_types import is_same_order, order_in_words

# What a place holds of a key, or None and why it cannot be read; (None, None): it is not there any more
HeldOrWhy = tuple[ByPartition | None, str | None]


@dataclass(frozen=True)
class ExplainedKey:
    """A key of a master, and how the rows of the master are read."""

    survey: Survey
    names: tuple[str, ...]  # of the key fields
    wanted: WantedKey
    rows: RowPlan

    @property
    def order_type(self) -> str:
        """The type of order values."""
        return self.rows.order_type

    @property
    def known(self) -> State | None:
        """The manifest; None if the master is unmanaged."""
        return self.survey.state

    @property
    def absences(self) -> dict[int, Any]:
        """The highest order value of each full snapshot, by its commit time in ms."""
        return {} if self.known is None else absences_of(self.order_type, self.known.absences)

    @property
    def by_partition(self) -> bool:
        """Return whether the key has a record in each partition."""
        return self.known is not None and self.known.key_scope == "partition"


class ExplainedPlace(ABC):
    """A master, a base or a table: its versions, their feed files, and what they hold of a key."""

    def __init__(self, path: str, kind: str, latest: int | None, config: Config, key: ExplainedKey) -> None:
        """Take the path as the user gives it, base | master | table, and the number of the latest version, if any.

        config: by which feed files are read whose settings are not known.
        """
        self.path, self.kind, self.latest, self.config, self.key = path, kind, latest, config, key

    @abstractmethod
    def commits(self) -> Sequence[Commit]:
        """Return the versions that may have changed a record, oldest first."""

    @property
    def first_floor(self) -> str | None:
        """The floor before the first version, as far as it is known."""
        return None

    @abstractmethod
    def now(self) -> HeldOrWhy:
        """Return what the place holds now."""

    @abstractmethod
    def given(self, commits: Sequence[Commit]) -> HeldOrWhy:
        """Return what the place held before its first version, or None and the note that says why it is not known."""

    @abstractmethod
    def held(self, version: Commit) -> HeldOrWhy:
        """Return what a version holds."""

    @abstractmethod
    def find(self, version: Commit, part: FeedFile) -> tuple[str | None, str | None]:
        """Return the path of a feed file that a version merged, or None and why it cannot be read."""

    @abstractmethod
    def config_of(self, version: Commit, paths: Sequence[str]) -> Config | None:
        """Return how the feed files of a version were read; None: its settings are not known.

        paths: of those that are to be read.
        """

    def horizon(self, version: Commit) -> str | None:
        """Return the highest order value that had expired when a version was made, as text; None if none is known."""
        return version.horizon

    def concerns(self, version: Commit) -> bool:
        """Return whether a version may have to do with the key."""
        return True

    def excludes(self, version: Commit, part: FeedFile) -> bool:
        """Return whether a feed file of a version certainly has no row of the key."""
        return False

    def written(self, version: Commit) -> Sequence[KeyMutation]:
        """Return the rows and tombstones of the key that a version wrote, where they can be told from older ones."""
        return ()

    def skipped(self, steps: Sequence[ChainStep]) -> Mapping[str, Sequence[str]]:
        """Return by run the paths of files with mutations of the key that it skipped: they had been merged before."""
        return {}

    def notes(self) -> Sequence[str]:
        """Return what else is not known, after all versions were asked for."""
        return ()

    def shown(self, path: str) -> str:
        """Return a path of the place as the user gives it."""
        return self.config.wording.audience.paths(path)


def config_by(settings: Mapping[str, Any] | None) -> Config | None:
    """Return the configuration of recorded settings; None for those that another release has recorded."""
    return None if settings is None else _parsed(json.dumps(settings))


@lru_cache(64)
def _parsed(settings: str) -> Config | None:
    try:
        return configuration.parse(as_recorded(json.loads(settings)))
    except MutatorError:
        return None


def key_of_master(config: Config, master: str, key: Key, feed: Sequence[str], shown: str) -> ExplainedKey:
    """Return the key that a user gives, as a master has it.

    feed: paths of feed files, which show how the rows of a master without a manifest are read. shown: the path for
    messages. Raises the errors of the catalogue.
    """
    survey = survey_of_master(config, master)
    plan = feed_reading(config, survey, feed[:1] if survey.state is None else ())
    return key_as_read(config.rows.text, survey, plan, key, shown, "master")


def key_as_read(text: TextSpec, survey: Survey, plan: Reading, key: Key, shown: str, what: str) -> ExplainedKey:
    """Return the key that a user gives. plan: of the survey. shown, what: the path for messages; master | table."""
    names, types = _key_fields(text, survey, plan)
    if types is None:
        values = [_bytes(value) for value in key_values(key, names, shown, what)]
        wanted = WantedKey(tuple(pa.array([value], pa.large_binary()) for value in values))
    else:
        wanted = typed_key(key, names, types, shown, what)
    return ExplainedKey(survey, tuple(names), wanted, plan.rows)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def _key_fields(text: TextSpec, survey: Survey, plan: Reading) -> tuple[list[str], list[Any] | None]:
    """Return the names of the key fields and their pa.DataTypes; None for delimited text, whose values are bytes."""
    layout = plan.rows.layouts["feed"]
    if plan.rows.block_type == "text":
        return _names_of_text(text, survey, plan), None
    found = list(plan.rows.spec["key"]["fields"])
    known = dataset_schema(survey.state, survey.master_path) if survey.state is not None else None
    if known is not None:
        schema = known.schema
    elif plan.rows.block_type == "avro":
        schema = to_arrow(expanded(plan.rows.spec["schema"]))
    else:
        schema = layout.result
    return found, [schema.field(name).type for name in found]


def _names_of_text(text: TextSpec, survey: Survey, plan: Reading) -> list[str]:
    """Return the names of the key fields of delimited text: those of settings or of a header, else the ordinals."""
    header = recorded_header(survey.state)
    names, places = text.names, plan.rows.layouts["feed"].id_fields
    if header and not names:  # written rows have its fields
        names, places = header[-1], plan.rows.layouts["written"].id_fields
    return [names[one] if one < len(names) else f"field {one}" for one in places]


def another_order(earlier: State, known: State) -> str | None:
    """Return that the order values of an earlier dataset cannot be compared with those of a later one, if so."""
    one, other = (() if state.is_without_key else state.spec["order"] for state in (earlier, known))
    return (
        f"the rows had another order: {order_in_words(one)}"
        if one and other and not is_same_order(one, other)
        else None
    )


def held_or_why(config: Config, key: ExplainedKey, path: str, known: State | None, feed: Sequence[str]) -> HeldOrWhy:
    """Return what a dataset holds of a key. known: its manifest. feed: as for ``key_of_master``."""
    try:
        if known is not None:
            return held_in(path, known, key.wanted, register_of(config, key.rows, full=False)), None
        survey = key.survey if key.survey.master_path == path else survey_of_master(config, path)
        if not survey.master:
            return {None: NOTHING}, None
        return held_in_unmanaged(feed_reading(config, survey, feed[:1]), key.wanted), None
    except MutatorError as fault:
        return None, fault.message
