"""The envelopes of flat rows: the fields of a record, and others that say what the row does and what orders it.

    dialect            field                 upsert                    delete  before an update  order
    aws-dms            Op                    I U                       D                         names of the files
    sqlserver-cdc      __$operation          2 4 5                     1       3                 __$start_lsn,
                                                                             __$command_id, __$seqval, after deletes
    delta-cdf          _change_type          insert, update_postimage  delete  update_preimage   _commit_version,
                                                                                   _commit_timestamp, after deletes
    iceberg-changelog  _change_type          INSERT, UPDATE_AFTER      DELETE  UPDATE_BEFORE     sequence of the file,
                                                                                     _change_ordinal, after deletes
    ticdc-csv          ticdc-meta$operation  I U                       D                         ticdc-meta$commit-ts,
                                                                                                      after deletes
    open-mirroring     __rowMarker__         0 1 4                     2                         names of the files
    ogg-csv            op_type               I U                       D                         pos, after deletes

``T`` of ``ogg-csv`` is a truncate, and its codes can be set, as in GoldenGate.
Files of ``aws-dms`` and ``open-mirroring`` may lack the field; their rows are upserts.
Codes and names of fields are read in any case. What is easily read wrong:

- An update that changes the key is one ``U`` with the new key in files of DMS: nothing says which record is old.
- A row before an update deletes its key, just below the update, so a changed key leaves no record behind. Where a
  setting names the order, nothing says which of the two is later, so rows before updates are ignored.
- Changes of one commit are in no order: a delete and an insert of a key are an update. *After deletes* is 0 for
  deletes and 1 for upserts, so that the insert wins.
- ``_change_ordinal`` starts at 0 in each view of Iceberg. The number in the name of the file comes before it.
- ``__$seqval`` is the position in the log, which may differ from the order within a transaction. ``__$command_id`` is
  that order; the functions that return changes leave it out, and net changes leave both out.
- Rows that say their table may be of several, in one file of text: in files that DMS writes with
  ``PreserveTransactions``, the operation, the table and the schema come before the columns, as TiCDC has them. Rows of
  other tables have other widths. ``B`` and ``C`` mark where a transaction begins and ends.
- The fields before the columns of GoldenGate are those of a template, so ``field.names`` takes its elements as they
  are: ``${optype[op_type]}``. Text has no quotes, and NULL is a word. A value that was not sent is empty by default: an
  update leaves the field unset, and an insert sets it to NULL. ``op_ts`` is not in the order of changes.
- ``__$update_mask`` says which columns an update changed. The row has the values of all, so it leaves none unset.
- LSNs are binary in Parquet, and hexadecimal in text. Here they are hexadecimal in lower case, so both compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mutator.rules.envelope_kind import Traces

BEFORE = "image before an update"  # the code of these rows where they are ignored
TRANSACTION = "transaction"  # that of rows at its borders
SEQUENCE = "file sequence"  # of the rows of records


class FlatOrder(NamedTuple):
    """A field that orders rows."""

    name: str
    type: str = "long"
    optional: bool = False  # files may lack it
    is_lsn: bool = False


_ELEMENT = re.compile(r"\$\{(\w+)(?:\[.*\])?\}")  # of a template
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]{8,}"
_OF_GOLDENGATE = {
    "optype": "op_type",
    "objectname": "table",
    "position": "pos",
    "timestamp": "op_ts",
    "currenttimestamp": "current_ts",
    "primarykeycolumns": "primary_keys",
    "alltokens": "tokens",
}


class FlatDialect(NamedTuple):
    """What the fields of a dialect say."""

    field: str
    upserts: tuple[str, ...]
    deletes: tuple[str, ...]
    before: tuple[str, ...] = ()  # the row before an update
    order: tuple[FlatOrder, ...] = ()
    others: tuple[str, ...] = ()  # fields that are not the record's
    optional: bool = False  # files may lack the field; their rows are upserts
    about: tuple[str, ...] = ()  # fields with the name of the table, or of the schema and the table, in lower case
    marks: tuple[str, ...] = ()  # codes, or beginnings of them, of rows at the borders of a transaction
    needed: tuple[str, ...] = ()  # fields of the order, one of which has a value in each row
    by_sequence: bool = False  # the sequence of the file comes first in the order
    truncates: tuple[str, ...] = ()
    unset: str | None = None  # the text of a value that was not sent; None: all are, unless a setting says another
    may_lack: bool = False  # a setting may say it
    template: Mapping[str, str] = {}  # an element of a template -> the field that it is
    formats: tuple[str, ...] = ()  # of the files; (): all
    settable: bool = False  # settings may name other codes
    usual: Mapping[str, str] = {}  # settings, and their values unless a user sets them
    pattern: str | None = None  # of the sequences in names of files, which order rows unless settings say otherwise
    hides_keys: bool = False  # nothing says that an update, the last code of upserts, changed the key
    traces: Traces = Traces()

    def recognizes(self, names: Sequence[str], values: Callable[[str], Sequence[bytes | None]]) -> bool:
        """Return whether a file has the fields that the dialect needs, and in each row one of its codes."""
        known = dict(zip(self.traces.head if [*names[:1]] == ["0"] else names, names, strict=False))
        if self.field not in known or (self.needed and not {*self.needed} & {*known}):
            return False
        found = {value for value in values(known[self.field]) if value is not None}
        numbers = [known[one.name] for one in self.order if one.type == "long" and one.name in known]
        return (
            bool(found)
            and found <= {code.encode() for code in self.codes}
            and all(value.isdigit() for name in numbers for value in values(name) if value)
            and all(
                re.fullmatch(form.encode(), value or b"")
                for name, form in self.traces.forms.items()
                for value in (values(known[name]) if name in known else ())
            )
        )

    @property
    def codes(self) -> tuple[str, ...]:
        """All codes."""
        return (*self.upserts, *self.deletes, *self.before, *self.truncates)

    @property
    def fields_of_tables(self) -> tuple[str, ...]:
        """The first fields of a file of several tables without a header, if those of others have other first ones."""
        head = self.traces.head
        return (self.field, *reversed(self.about)) if self.about and head and not {*self.about} & {*head} else ()

    @property
    def rank(self) -> str:
        """The field that orders upserts after deletes."""
        return f"{self.field} after deletes"

    @property
    def settings(self) -> dict[str, str]:
        """The settings that the dialect decides."""
        return {
            "op.code.field.ordinal": self.field,
            "delete.when": "code",
            "deleted.op.code": ",".join(self.deletes),
            "upsert.op.code": ",".join(self.upserts),
            "ignore.op.code": ",".join((BEFORE, *((TRANSACTION,) if self.about else ()))),
            "op.code.keep": "false",
            **({"truncate.op.code": ",".join(self.truncates)} if self.truncates else {}),
        }

    def elements(self, names: Sequence[str]) -> dict[str, str]:
        """Return the fields that elements of a template among some names are, each with the element.

        >>> FLAT_DIALECTS["ogg-csv"].elements(["${optype[op]}", "${xid}", "id"])
        {'op_type': '${optype[op]}', '${xid}': '${xid}'}
        """
        found = {name: _ELEMENT.fullmatch(name) for name in (names if self.template else ())}
        return {self.template.get(one[1].lower(), name): name for name, one in found.items() if one is not None}


FLAT_DIALECTS: Mapping[str, FlatDialect] = {
    "aws-dms": FlatDialect(
        "Op",
        upserts=("I", "U"),
        deletes=("D",),
        optional=True,
        others=("dms-schema", "dms-table"),
        about=("dms-schema", "dms-table"),
        marks=("b", "c"),
        may_lack=True,
        pattern="dms",
        hides_keys=True,
        traces=Traces(inserts=("I",), null="NULL", stamps="[0-9]{35}", loads=r"^LOAD[0-9A-F]{8}\.", head=("Op",)),
    ),
    "sqlserver-cdc": FlatDialect(
        "__$operation",
        upserts=("2", "4", "5"),
        deletes=("1",),
        before=("3",),
        order=(
            FlatOrder("__$start_lsn", "string", is_lsn=True),
            FlatOrder("__$command_id", optional=True),
            FlatOrder("__$seqval", "string", optional=True, is_lsn=True),
        ),
        others=("__$end_lsn", "__$update_mask"),
        needed=("__$start_lsn",),
        traces=Traces(inserts=("2",)),
    ),
    "delta-cdf": FlatDialect(
        "_change_type",
        upserts=("insert", "update_postimage"),
        deletes=("delete",),
        before=("update_preimage",),
        order=(FlatOrder("_commit_version"), FlatOrder("_commit_timestamp", "timestamp", optional=True)),
        needed=("_commit_version", "_commit_timestamp"),
        traces=Traces(inserts=("insert",)),
    ),
    "iceberg-changelog": FlatDialect(
        "_change_type",
        upserts=("INSERT", "UPDATE_AFTER"),
        deletes=("DELETE",),
        before=("UPDATE_BEFORE",),
        order=(FlatOrder("_change_ordinal"),),
        others=("_commit_snapshot_id",),
        needed=("_change_ordinal",),
        by_sequence=True,
        traces=Traces(inserts=("INSERT",)),
    ),
    "ticdc-csv": FlatDialect(
        "ticdc-meta$operation",
        upserts=("I", "U"),
        deletes=("D",),
        order=(FlatOrder("ticdc-meta$commit-ts"),),
        others=("ticdc-meta$schema", "ticdc-meta$table", "ticdc-meta$is-update"),
        about=("ticdc-meta$schema", "ticdc-meta$table"),
        needed=("ticdc-meta$commit-ts",),
        traces=Traces(
            inserts=("I",),
            null="\\N",
            head=("ticdc-meta$operation", "ticdc-meta$table", "ticdc-meta$schema", "ticdc-meta$commit-ts"),
            headless="^CDC",
        ),
    ),
    "ogg-csv": FlatDialect(
        "op_type",
        upserts=("I", "U"),
        deletes=("D",),
        truncates=("T",),
        order=(FlatOrder("pos", "string"),),
        others=("table", "op_ts", "current_ts", "primary_keys", "tokens"),
        about=("table",),
        needed=("pos",),
        unset="",
        may_lack=True,
        template=_OF_GOLDENGATE,
        usual={"field.delim.regex": "\x01", "csv.null": "NULL"},
        formats=("text", "csv"),
        settable=True,
        traces=Traces(
            inserts=("I",),
            head=("op_type", "table", "op_ts", "current_ts", "pos"),
            forms={"op_ts": _TIME, "current_ts": _TIME, "pos": r"[0-9]{10,}"},
        ),
    ),
    "open-mirroring": FlatDialect(
        "__rowMarker__",
        upserts=("0", "1", "4"),
        deletes=("2",),
        optional=True,
        pattern=r"^(?P<number>[0-9]{20})(?=\.|$)",
        traces=Traces(inserts=("0",), key_file="_metadata.json", loads=r"^[0-9]{20}\."),
    ),
}
