"""A master whose key is explained: its survey, the key with the types of its fields, and what it holds.

The paths in an explanation, as the caller spells them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.manifest import Manifest
from mutator.dataset.partition_index import SPEC
from mutator.errors import MutatorError
from mutator.formats.files.avro_schema import expanded, to_arrow
from mutator.pipeline.explain.chain import ChainStep
from mutator.pipeline.explain.explained_feed import FeedRows
from mutator.pipeline.explain.feed_reading import feed_reading, survey_of_master
from mutator.pipeline.explain.held import ByPartition, held_in, held_in_unmanaged
from mutator.pipeline.explain.key import Key, WantedKey, key_values, typed_key
from mutator.pipeline.explain.key_decisions import Outcome
from mutator.plan.inspect.headers import recorded_header
from mutator.plan.inspect.managed import dataset_schema
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import Reading
from mutator.rules.absences import absences_of


def with_paths(step: ChainStep, shown: Callable[[str], str]) -> ChainStep:
    """Return a step with other paths. shown: replaces the full paths in a text."""
    feed = step.feed
    rows = FeedRows(
        feed.rows.mutations,
        tuple(replace(one, file=shown(one.file)) for one in feed.rows.rejected),
        tuple((shown(path), shown(why)) for path, why in feed.rows.unread),
    )
    decided = {
        name: replace(one, outcomes=tuple(_outcome(outcome, shown) for outcome in one.outcomes))
        for name, one in step.decided.items()
    }
    return replace(step, feed=replace(feed, rows=rows, again=tuple(map(shown, feed.again))), decided=decided)


def _outcome(one: Outcome, shown: Callable[[str], str]) -> Outcome:
    winner = one.winner and replace(one.winner, file=shown(one.winner.file))
    return replace(one, mutation=replace(one.mutation, file=shown(one.mutation.file)), winner=winner)


@dataclass(frozen=True)
class Place:
    """A master, and a key in it."""

    survey: Survey
    names: tuple[str, ...]  # of the key fields
    wanted: WantedKey
    order_type: str

    @property
    def known(self) -> Manifest | None:
        """The manifest; None if the master is unmanaged."""
        return self.survey.manifest

    @property
    def absences(self) -> dict[int, Any]:
        """The highest order value of each full snapshot, by its commit time in ms."""
        return {} if self.known is None else absences_of(self.order_type, self.known.absences)

    @property
    def by_partition(self) -> bool:
        """Return whether the key has a record in each partition."""
        return self.known is not None and self.known.spec.get(SPEC, {}).get("scope") == "partition"


def place_of(config: Config, master: str, key: Key, feed: Sequence[str], shown: str) -> Place:
    """Return a master with the key that a user gives.

    feed: paths of feed files, which show how the rows of a master without a manifest are read. shown: the path for
    messages. Raises the errors of the catalogue.
    """
    survey = survey_of_master(config, master)
    plan = feed_reading(config, survey, feed[:1] if survey.manifest is None else ())
    names, types = _key_fields(config, survey, plan)
    if types is None:
        values = [_bytes(value) for value in key_values(key, names, shown, "master")]
        wanted = WantedKey(tuple(pa.array([value], pa.large_binary()) for value in values))
    else:
        wanted = typed_key(key, names, types, shown, "master")
    return Place(survey, tuple(names), wanted, plan.rows.order_type)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def _key_fields(config: Config, survey: Survey, plan: Reading) -> tuple[list[str], list[Any] | None]:
    """Return the names of the key fields and their pa.DataTypes; None for delimited text, whose values are bytes."""
    layout = plan.rows.layouts["feed"]
    if plan.rows.block_type == "text":
        return _names_of_text(config, survey, plan), None
    found = list(plan.rows.spec["key"]["fields"])
    known = dataset_schema(survey.manifest, survey.master_path) if survey.manifest is not None else None
    if known is not None:
        schema = known.schema
    elif plan.rows.block_type == "avro":
        schema = to_arrow(expanded(plan.rows.spec["schema"]))
    else:
        schema = layout.result
    return found, [schema.field(name).type for name in found]


def _names_of_text(config: Config, survey: Survey, plan: Reading) -> list[str]:
    """Return the names of the key fields of delimited text: those of settings or of a header, else the ordinals."""
    header = recorded_header(survey.manifest)
    names, places = config.rows.text.names, plan.rows.layouts["feed"].id_fields
    if header and not names:  # written rows have its fields
        names, places = header[-1], plan.rows.layouts["written"].id_fields
    return [names[one] if one < len(names) else f"field {one}" for one in places]


def held_at(config: Config, place: Place, master: str, known: Manifest | None, feed: Sequence[str]) -> ByPartition:
    """Return what a dataset holds of the key of a place; feed: as for ``place_of``. Raises MutatorError."""
    if known is not None:
        return held_in(master, known, place.wanted)
    survey = place.survey if place.survey.master_path == master else survey_of_master(config, master)
    return held_in_unmanaged(feed_reading(config, survey, feed[:1]), place.wanted)


def held_or_why(
    config: Config, place: Place, master: str, known: Manifest | None, feed: Sequence[str]
) -> tuple[ByPartition | None, str | None]:
    """Return what ``held_at`` returns and None, or None and why it cannot be read."""
    try:
        return held_at(config, place, master, known, feed), None
    except MutatorError as fault:
        return None, str(fault)
