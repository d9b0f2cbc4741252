"""Survey the inputs before a run is planned: names, sizes, first bytes and rows, and the master's manifest.

All reading that the plan needs happens here, on the driver. No file is read further than its first row or line end,
except a feed file that has a control file or may have been merged already, which is read to its end. Of a managed
master, the first bytes of one file on a disk are read.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from mutator.config.settings import Config, InputSpec, OrderSpec, OutputSpec, RowSpec
from mutator.dataset import manifest
from mutator.dataset.directory import check_files, read_manifest
from mutator.dataset.state import State
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.file_format import FileSchema
from mutator.plan.inspect import control_files
from mutator.plan.inspect.avro_aliases import rows_with_names, state_with_names, with_aliases
from mutator.plan.inspect.envelopes import about_the_same, order_of_feed, unwrapped, with_fields_of_others
from mutator.plan.inspect.feed_files import feed_entries, sequence_notes, split_consumed
from mutator.plan.inspect.first_rows import with_few_heads, with_first_head
from mutator.plan.inspect.headers import check_headers
from mutator.plan.inspect.inferred_types import with_known_types
from mutator.plan.inspect.key_files import check_order, with_keys, without_twins
from mutator.plan.inspect.managed import (
    PartitionedMaster,
    check_directories,
    dataset_schema,
    dataset_sources,
    forms_of,
    partitioned_master,
)
from mutator.plan.inspect.master_files import masters_below, unmanaged_sources
from mutator.plan.inspect.path_names import with_path_fields
from mutator.plan.inspect.probe import format_of_name, probe_file
from mutator.plan.inspect.snapshot_time import first_time
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.source_epochs import with_epochs
from mutator.plan.inspect.table_inputs import TableInput, is_below, with_tables
from mutator.plan.inspect.wanted_schema import read_schema
from mutator.rules import file_names
from mutator.rules.encodings import UTF8
from mutator.rules.file_sequences import recorded
from mutator.rules.known_formats import FORMATS
from mutator.rules.snapshot_times import FirstTime
from mutator.storage import Entry, Storage, absolute, located_to_write, storage_for

_MERGE_APART = {"feed": "merge them in a run of their own", "master": "merge them as a feed"}


@dataclass(frozen=True)
class Survey:
    """The inputs of a run, as the plan needs to know them."""

    master_path: str
    state: State | None  # of the master; None if mutator did not write it, or it has no rows yet
    master: tuple[Source, ...]  # of a partitioned master: one file of each form
    feed: tuple[Source, ...] = ()
    feed_paths: tuple[str, ...] = ()
    tombstones: tuple[Source, ...] = ()
    consumed: tuple[Source, ...] = ()  # feed files that an earlier run has merged
    ignored: tuple[str, ...] = ()  # paths of files whose names start with _ or .
    notes: tuple[str, ...] = ()
    dataset_schema: FileSchema | None = None  # of a managed master whose fields have names
    output_schema: tuple[str, FileSchema] | None = None  # the schema that the user wants, and its path
    field_names: tuple[str, ...] = ()  # of a feed row in order, where the manifest of escaped text has them
    partitioned: PartitionedMaster | None = None  # None: the master has no partitions yet, or none at all
    names: Mapping[str, str] = field(default_factory=dict)  # by aliases of Avro: other names of fields -> the result's
    compares: bool = False  # the feed is another dataset, whose rows have no op codes
    order: OrderSpec | None = None  # of a run: the configured one, with what the messages of the feed say
    time: FirstTime | None = None  # of a snapshot whose rows have it
    versioned: bool = False  # the master is a versioned table, whose files stay as they are

    @property
    def formats(self) -> set[str]:
        """The formats of all files."""
        return {source.file_format for source in (*self.master, *self.feed)}

    def asked(self, rows: RowSpec) -> RowSpec:
        """Return the rows of a configuration as the feed has them: order, time, and the result's names of fields."""
        rows = rows_with_names(replace(rows, order=self.order or rows.order), self.names)
        leaves_unset = any(one.wrapped is not None and one.wrapped.envelope.leaves_unset for one in self.feed)
        return replace(rows, ops=replace(rows.ops, time=self.time, sends_all=not leaves_unset))

    @property
    def other_names(self) -> Iterator[str]:
        """The names of the master's files, and of feed files that earlier runs have merged; they may be many."""
        yield from (source.name for source in self.master)
        yield from (part.name.rpartition("/")[2] for part in (() if self.state is None else self.state.feed))

    @property
    def had_schema(self) -> bool:
        """Whether the master's manifest names its fields."""
        return self.state is not None and "fields" in self.state.spec["key"]


class Known(NamedTuple):
    """What is known of a dataset: its state, None if mutator did not write it."""

    state: State | None


def survey_inputs(
    config: Config,
    master: str,
    feed: Sequence[str],
    tables: Sequence[TableInput] = (),
    dataset: Known | None = None,
) -> Survey:
    """Find and probe the files of a run. tables: those of its paths that have the rows of tables in memory.

    dataset: the feed is compared with the master, and has the files of a dataset, whose manifest this is. Raises
    ConfigError, DataError, StorageError or StateError, naming the path.
    """
    path = located_to_write(master)[1]
    own = replace(config, inputs=_own_format(config.inputs, path, tables), rows=_of_table(config.rows, path, tables))
    survey = survey_master(own, master)
    return survey_feed(config, survey, feed, tables, dataset)


def _own_format(inputs: InputSpec, master: str, tables: Sequence[TableInput]) -> InputSpec:
    """Return the inputs of a run. The format of a master is its own where it has the rows of a table in memory."""
    return replace(inputs, master_format=None) if is_below(tables, master) else inputs


def _of_table(rows: RowSpec, path: str, tables: Sequence[TableInput]) -> RowSpec:
    """Return how a path is read: the rows of a table in memory are UTF-8, whatever encoding the files have."""
    if not is_below(tables, path):
        return rows
    return replace(rows, text=replace(rows.text, encoding=UTF8, master_encoding=None))


def survey_feed(
    config: Config,
    survey: Survey,
    feed: Sequence[str],
    tables: Sequence[TableInput] = (),
    dataset: Known | None = None,
) -> Survey:
    """Find and probe the files of a feed, and add them to the survey of a master.

    tables, dataset: as for ``survey_inputs``, which names the errors, too.
    """
    rows, inputs, output = config.rows, config.inputs, config.output
    if dataset is not None:  # as a master has it
        encoding = UTF8 if dataset.state is not None else rows.text.master_encoding or rows.text.encoding
        rows = replace(rows, text=replace(rows.text, encoding=encoding))
    master, known = survey.master_path, survey.state
    paths = tuple(absolute(path) for path in feed)
    wanted = read_schema(output.schema) if output.schema is not None else None
    named = _has_names(rows, inputs, output, known)
    adopted = masters_below(master, survey.ignored)
    of_tables = {table.path for table in tables}
    entries, ignored = feed_entries([path for path in paths if path not in of_tables], inputs.control_suffix)
    entries, notes_on_twins = without_twins(rows.ops, entries)
    entries |= feed_entries([path for path in paths if path in of_tables], None)[0]
    for path in entries:
        if path == master:
            raise error("path.roles", path=path, roles="master and feed")
        if posixpath.dirname(path) == master:
            raise error("path.inside", path=path, role="feed", other_role="master", other=master)
    named = named or (known is not None and "fields" in known.spec["key"])
    found = _probe_feed(rows, inputs, entries, named, survey.field_names, tables)
    found = about_the_same(rows.ops, found, master, known)
    rows = replace(rows, order=order_of_feed(rows, found))
    check_order(rows)
    if not named and any(source.file_format != "text" for source in (*survey.master, *found)):
        found = _probe_feed(rows, inputs, entries, True, survey.field_names, tables)
        if known is None:
            own = _own_format(inputs, master, tables)
            of_master = _of_table(rows, master, tables)
            sources, _ = unmanaged_sources(of_master, own, storage_for(master), master, named=True)
            survey = replace(survey, master=sources)
    order, found = with_epochs(rows.order, found, known)
    rows = replace(rows, order=order)
    adopted_as = _adopted(storage_for(master), master) if inputs.master_adopt else None
    compared = None if dataset is None else dataset.state
    given = [one for one in (wanted and wanted[1], survey.dataset_schema) if one is not None]
    in_paths = with_path_fields(rows, adopted_as, compared, given, survey.master, found)
    survey, found = replace(survey, master=in_paths.master), in_paths.feed
    schemas_of_master = (survey.dataset_schema, *(source.file_schema for source in survey.master))
    found = with_fields_of_others(rows.ops, schemas_of_master, found)
    written = output.format or (None if known is None else known.spec["format"])
    found, of_types = with_known_types((wanted and wanted[1], *schemas_of_master), found, written)
    if tables:
        schemas = [Source(master, "", 0, file_schema=survey.dataset_schema)]
        if wanted is not None:
            schemas.insert(0, Source(wanted[0], "", 0, file_schema=wanted[1]))
        known_master, found = with_tables(tables, schemas, survey.master, found, rows.key.ids)
        survey = replace(survey, master=known_master)
    keeps_names = survey.versioned or survey.partitioned is not None
    both = with_aliases(survey.master, found, survey.dataset_schema, wanted and wanted[1], keeps_names=keeps_names)
    survey, found = replace(survey, master=both.master, dataset_schema=both.master_schema), list(both.feed)
    if both.names:
        rows = rows_with_names(rows, both.names)
        known = None if known is None else state_with_names(known, both.names)
        survey = replace(survey, state=known, names=both.names)
    merged = [] if known is None else [file.name for file in known.feed]
    otherwise = survey.master[0].file_format if survey.master else ""
    _check_formats("feed", [source for source in found if not source.is_table], merged, otherwise)
    if survey.partitioned is None:
        _check_formats("master", survey.master)
    check_headers(rows, found, survey.master, known)
    fresh, consumed, notes = split_consumed(rows.order, inputs, config.operation, known, found)
    fresh = with_keys(rows.ops, fresh)
    if inputs.control_suffix is not None:
        control_files.check(inputs.control_suffix, [source for source in fresh if not source.is_table])
    return replace(
        survey,
        feed=fresh,
        feed_paths=paths,
        consumed=consumed,
        ignored=(*survey.ignored, *ignored),
        notes=(
            *notes,
            *in_paths.notes,
            *both.notes,
            *of_types,
            *notes_on_twins,
            *sequence_notes(rows.order, inputs, known, fresh, survey.master),
            *_adoption_notes(survey, adopted, inputs.master_adopt),
        ),
        output_schema=wanted,
        order=rows.order,
        time=first_time(rows, fresh),
    )


def survey_master(config: Config, master: str) -> Survey:
    """Find and probe the files of a master; raises as ``survey_inputs`` does."""
    storage, master = located_to_write(master)
    rows, inputs, operation = config.rows, config.inputs, config.operation
    known = None if inputs.master_adopt else read_manifest(storage, master)
    if known is not None and operation.reorders:
        known = known.without_order()
    if known is None:
        sources, hidden = unmanaged_sources(
            rows, inputs, storage, master, named=_has_names(rows, inputs, config.output, None)
        )
        if inputs.master_adopt and rows.order.by_file_name and _has_other_sequences(rows, storage, master):
            sources = tuple(replace(source, sequence=None) for source in sources)
        return Survey(master, None, sources, ignored=hidden)
    partitioned = partitioned_master(master, known)
    if partitioned is not None:  # its files are checked while Spark reads the feed (``engine.blocks.carry``)
        survey = Survey(master, known, with_first_head(storage, forms_of(master, known)), partitioned=partitioned)
    else:
        check_directories(known, master)
        # If damaged files may be replaced, the merge compares their checksums.
        lost = [part.path for part in known.parts()] if operation.overwrites and operation.replace_damaged else ()
        check_files(storage, master, known.parts(), storage.entries(master), lost)
        sources, tombstones = dataset_sources(master, known)
        survey = Survey(master, known, with_first_head(storage, sources), tombstones=tombstones)
    schema = dataset_schema(known, master)
    return replace(survey, dataset_schema=schema, field_names=_feed_field_names(rows.ops.field, known, schema))


def _has_other_sequences(rows: RowSpec, storage: Storage, master: str) -> bool:
    """Return whether the sequences in names of an adopted master are of another pattern than this run's."""
    known = _adopted(storage, master)
    order = {} if known is None else known.spec["order"]
    return "pattern" in order and order["pattern"] != recorded(rows.order.pattern)


def _adopted(storage: Storage, master: str) -> State | None:
    """Return the manifest of an adopted master; None if it is damaged, which is a reason to adopt it."""
    try:
        return read_manifest(storage, master)
    except MutatorError:
        return None


def _has_names(rows: RowSpec, inputs: InputSpec, output: OutputSpec, known: State | None) -> bool:
    """Return whether fields have names in a run, so that .csv means CSV.

    ``field.names`` alone does not give names to a dataset of delimited text, whose manifest knows fields by position.
    """
    formats = {inputs.master_format, inputs.feed_format, output.format} - {None, "text"}
    if rows.called or formats or output.schema or output.defaults:
        return True
    return bool(rows.text.names) and (known is None or known.spec["format"] != "text")


def _probe_feed(
    rows: RowSpec,
    inputs: InputSpec,
    entries: Mapping[str, Entry],
    named: bool,
    field_names: tuple[str, ...],
    tables: Sequence[TableInput],
) -> list[Source]:
    def probe(path: str, entry: Entry) -> Source:
        wanted = None if is_below(tables, path) else inputs.feed_format
        how = _of_table(rows, path, tables)
        found = probe_file(how, storage_for(path), entry, wanted, named=named, field_names=field_names)
        return unwrapped(rows, found)

    return list(with_few_heads(probe(path, entry) for path, entry in entries.items()))


def _feed_field_names(op_field: Any, known: State, schema: FileSchema | None) -> tuple[str, ...]:
    """Return the names of the fields of a feed row, in order, where the master is escaped text.

    The manifest has those of a master row; the op code is inserted at its ordinal.
    """
    if schema is None or known.spec["format"] != "escaped":
        return ()
    names = list(schema.schema.names)
    if isinstance(op_field, int) and known.spec["op code"] is None and op_field <= len(names):
        op = "op_code"
        while op in names:
            op += "_"
        names.insert(op_field, op)
    return tuple(names)


def _adoption_notes(survey: Survey, partitions: Sequence[str], adopt: bool) -> tuple[str, ...]:
    """Return a note on the state that is lost with the manifest. partitions: those with manifests of their own."""
    if partitions:
        lost = f"of its {counted(len(partitions), 'partition')} with manifests of their own are forgotten"
        return (f"the master is adopted: the tombstones, order values beside rows and merged feed files {lost}",)
    if survey.state is None and any(file_names.is_data_file(source.name) for source in survey.master):
        what = "is adopted" if adopt else f"was written by mutator and has lost its {manifest.DIRECTORY}/"
        return (f"the master {what}: its tombstones, order values beside rows and merged feed files are forgotten",)
    return ()


def _check_formats(side: str, sources: Iterable[Source], merged: Sequence[str] = (), otherwise: str = "") -> None:
    """Raise DataError where the files of a side have several formats; it names the files of the unusual ones.

    The usual format is that of the file merged last, else the most frequent one, else another side's. merged: names of
    files of the side that were merged before, the last one last. otherwise: the format of the other side.
    """
    by_format: dict[str, list[Source]] = {}
    for source in sources:
        by_format.setdefault(source.file_format, []).append(source)
    if len(by_format) < 2:
        return
    most = max(map(len, by_format.values()))
    frequent = [name for name, files in by_format.items() if len(files) == most]
    if len(frequent) > 1:
        frequent = [name for name in frequent if name == otherwise]
    usual = next(
        (name for name in (*(_formats_of(merged[-1]) if merged else ()), *frequent) if name in by_format), None
    )
    odd = [source for name, files in by_format.items() if name != usual for source in files]
    counts = ", ".join(f"{len(files)} {name}" for name, files in sorted(by_format.items()))
    what = f"the {side} has files of several formats ({counts})"
    others = file_names.first_few([place(source.name) for source in odd[1:]])
    if usual is None:
        what += f"; the others are {others}"
    elif others:
        what += f"; {others} {'is' if len(odd) == 2 else 'are'} not {usual} either"
    cure = f"remove the files that do not belong, or set {side}.format"
    if not all(FORMATS[name].delimited for name in by_format):  # no setting makes them readable as another format
        cure = "remove the files that do not belong, or " + _MERGE_APART[side]
    raise error("format", path=odd[0].path, what=what, cure=cure)


def _formats_of(name: str) -> tuple[str, ...]:
    """Return the formats that a file of a name may have."""
    promised = format_of_name(name, named=True)
    if promised is None:
        return ("text", "escaped")
    return (promised, "text") if promised == "csv" else (promised,)
