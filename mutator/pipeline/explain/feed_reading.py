"""Feed files that were merged: found where a user says that they are, and read as a run would read them now."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mutator.config.settings import Config, InputSpec
from mutator.dataset import checksum
from mutator.dataset.commits import FeedFile
from mutator.dataset.state import State
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.inspect.feed_files import feed_entries
from mutator.plan.inspect.key_files import without_key_files
from mutator.plan.inspect.snapshot_time import as_of
from mutator.plan.inspect.survey import Survey, survey_feed, survey_master
from mutator.plan.moved_unset import with_moved_unset
from mutator.plan.reading import Chunks, Reading
from mutator.plan.registers import register_of, with_patches
from mutator.plan.rows.format_choice import row_plan
from mutator.plan.rows.row_plan import MERGES
from mutator.plan.spec_check import check_spec
from mutator.plan.splits import numbered
from mutator.rules.epochs import UNNAMED, epochs_in
from mutator.rules.file_names import base_name, first_few
from mutator.rules.partition_paths import values_above
from mutator.storage import Entry, absolute

_CHUNK = 64 << 20
_NOT_FOUND = "not found: give the directory where it is with --feed"


@dataclass(frozen=True)
class GivenFiles:
    """The files that a user names."""

    entries: Sequence[Entry]

    def find(self, part: FeedFile, why: str | None = None) -> tuple[str | None, str | None]:
        """Return the path of a file that has the name, the size and the content of a merged one, or None and a reason.

        why: it is not where it was; None: it was not looked for elsewhere.
        """
        for entry in self.entries:
            if _is_named(entry, part) and entry.bytes == part.bytes:
                try:
                    if checksum.difference(entry.path, part.checksum) is None:
                        return entry.path, None
                except MutatorError:
                    continue
        return None, why or _NOT_FOUND

    def not_merged(self, merged: Iterable[FeedFile]) -> list[str]:
        """Return a note on the files that differ from all merged ones in name or size."""
        known = {(base_name(part.name), part.bytes) for part in merged}
        others = [entry.name for entry in self.entries if (entry.name, entry.bytes) not in known]
        why = "not recorded as merged; mutator diff --feed shows what a run would change"
        return [f"{first_few(others)}: {why}"] if others else []


def _is_named(entry: Entry, part: FeedFile) -> bool:
    """Return whether a file has the name of a merged one, and the fields of its path, however these are escaped."""
    return entry.name == base_name(part.name) and {*values_above(part.name)} <= {*values_above(entry.path)}


def files_at(feed: Sequence[str], inputs: InputSpec) -> GivenFiles:
    """Return the files at some paths. Raises MutatorError for paths that cannot be used."""
    entries, _ = feed_entries([absolute(one) for one in feed], inputs.control_suffix)
    return GivenFiles(list(without_key_files(entries).values()))


def survey_of_master(config: Config, master: str) -> Survey:
    """Return the survey of a master. Raises the errors of the catalogue."""
    return survey_master(_for_reading(config), master)


def feed_reading(config: Config, survey: Survey, feed: Sequence[str]) -> Reading:
    """Return the reading of the files of a master and of a feed.

    survey: of the master. feed: full paths of files. The files are not compared with those that were merged before, and
    no rule of a run about late or missing files stops it. Raises the errors of the catalogue.
    """
    config = _for_reading(config, survey.state)
    survey = survey_feed(config, survey, feed)
    asked = survey.asked(config.rows)
    planned, path = row_plan(asked, config.output, survey), survey.master_path
    rows = with_patches(replace(config, rows=asked), planned, survey.state, path, versioned=survey.versioned)
    if survey.state is not None:
        check_spec(survey, survey.state, _with_nulls(rows.spec, survey.state))
    master = survey.master if survey.partitioned is None else ()
    register = register_of(config, rows, full=False)
    found = with_moved_unset(config, rows, register, survey.feed, versioned=survey.versioned)
    return Reading(
        rows=rows,
        inputs=numbered((), master, found, rows),
        by_file_name=asked.order.by_file_name,
        as_of=as_of(asked.ops, rows.order_type, survey.feed[0].sequence, rows.epoch) if survey.feed else None,
        side_columns=register.side_columns,
        buries_rows=register.buries_rows,
        chunks=Chunks(_CHUNK, _CHUNK, _CHUNK),
        rejects={"master": 0, "feed": 0},
        master=survey.partitioned,
    )


def _with_nulls(spec: dict[str, Any], known: State) -> dict[str, Any]:
    """Return the specification of a run; it may be of a time before a run with ``null.order=lowest``."""
    null = {name: value for name, value in known.spec["order"].items() if name == "null"}
    return {**spec, "order": {**spec["order"], **null}}


def _for_reading(config: Config, state: State | None = None) -> Config:
    """Return a configuration that reads files as a run does, and that no file stops."""
    order = config.rows.order
    known = {} if state is None else epochs_in(state.spec).named
    epoch = {UNNAMED: 0, **known, **(order.epoch or {})}  # a run records the others
    recorded = state is not None and not state.is_without_key and MERGES in state.spec  # perhaps with a wider type
    ops = replace(config.rows.ops, merges=()) if recorded else config.rows.ops
    return replace(
        config,
        rows=replace(config.rows, order=replace(order, epoch=epoch), ops=ops),
        inputs=replace(
            config.inputs,
            allow_empty_master=True,
            consumed_files="merge",
            control_suffix=None,
            late_files="merge",
            sequence_gaps="ignore",
            reused_names="accept",
        ),
    )
