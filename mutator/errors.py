"""The closed catalogue of errors: one line a kind, one exit code a family.

A message says where, what, and the cure. Raise with ``raise error("output.exists", path=...)``; a kind that is not in
the catalogue is a bug. Rows that cannot be read are not errors but data (rejects): the driver decides about them.
"""

from __future__ import annotations

import re

from mutator.errors_hive import HIVE
from mutator.redact import without_secrets

__all__ = [
    "BUSY",
    "CATALOGUE",
    "ConfigError",
    "DataError",
    "MutatorError",
    "StateError",
    "StorageError",
    "error",
    "key_text",
    "printable",
    "rebuilt",
    "told",
]


NOTE = "(error {} of mutator)"
_TOLD = re.compile(r"\bmutator\.errors\.\w+: (.*?)\n" + re.escape(NOTE).replace(r"\{\}", r"([\w.]+)"), re.DOTALL)
BUSY = ("base.busy", "base.alone")  # kinds that say that somebody else is at work


class MutatorError(Exception):
    """A fault with a message for the user and an exit code for the shell."""

    exit_code = 70
    kind = "bug"

    def __reduce__(self) -> tuple[object, ...]:
        return (rebuilt, (self.kind, str(self)))


class ConfigError(MutatorError):
    """The command line or the configuration cannot be used."""

    exit_code = 2


class DataError(MutatorError):
    """The input holds something that must not be merged."""

    exit_code = 3


class StorageError(MutatorError):
    """A file system refused or lost something."""

    exit_code = 4


class StateError(MutatorError):
    """Another run, or an earlier state, stands in the way."""

    exit_code = 5


CATALOGUE: dict[str, tuple[type[MutatorError], str]] = {
    # 2: usage and configuration
    "usage": (ConfigError, "{what}"),
    "config": (ConfigError, "{where}: {faults}"),
    "config.file": (ConfigError, "{path}: the configuration cannot be read: {why}; mend the file, or name another one"),
    "path.missing": (ConfigError, "{path}: there is no such {what}; check the path"),
    "path.scheme": (ConfigError, "{path}: '{scheme}' is not a known kind of storage; known are: {known}"),
    "path.extra": (
        ConfigError,
        "{path}: {scheme}:// needs packages that are not installed: pip install 'mutator[{extra}]'",
    ),
    "path.transport": (
        ConfigError,
        "{path}: {scheme}:// needs packages that are not installed: pip install 'smart_open[{extra}]'",
    ),
    "path.readonly": (
        ConfigError,
        "{path}: {scheme}:// is only read, file by file; master and output must be on disks, hdfs:// or s3://",
    ),
    "path.bucket": (ConfigError, "{path}: there is no such bucket; make it, or mend the name"),
    "path.kind": (
        ConfigError,
        "{path}: is a {what}, and only regular files are read; {cure}",
    ),
    "path.name": (
        ConfigError,
        "{path}: the name holds a control character, which no listing or report can show safely; rename the file",
    ),
    "path.hidden": (
        ConfigError,
        "{path}: names that start with '_' or '.' are never read; rename the file if it is a feed file",
    ),
    "path.roles": (ConfigError, "{path}: {roles} must be different places; name another directory for one of them"),
    "master.missing": (
        ConfigError,
        ("{path}: there is no master; name its directory, or set allow.empty.master=true for the first run"),
    ),
    "width": (ConfigError, "{where}: {what}; {cure}"),
    "spark.missing": (ConfigError, "no Spark session can be started: {why}"),
    "spark.connect": (
        ConfigError,
        (
            "this Spark session is a Spark Connect session, which has no RDDs; use a classic session "
            "(spark.api.mode=classic, and no --remote)"
        ),
    ),
    # 3: data
    "master.twice": (
        DataError,
        (
            "the master has several rows of {count} IDs that the feed mutates, for example {samples}; "
            "master.unique=true promises that it has none: leave it out, and the last row of each ID is kept"
        ),
    ),
    "rejects": (
        DataError,
        "{count} {side} rows cannot be read as records (limit {limit}); the first are:\n{samples}\nMend the rows{cure}",
    ),
    "damaged": (DataError, "{path}: {why}; the file is damaged: have it delivered again, or take it out of the feed"),
    "compression": (
        DataError,
        "{path}: the name says {name} and the content is {content}; give the file the suffix of its content",
    ),
    "compression.unknown": (
        DataError,
        "{path}: is {content}, which is not read here; deliver it as plain text, .gz, .bz2, .zst or .xz",
    ),
    "schema.field": (DataError, "{path}: field {field} {what}; mend the file, or the setting that names the field"),
    "schema.type": (
        DataError,
        (
            "field {field} is {one} in {path} and {other} in {other_path}: {why}; have one of them delivered as the "
            "other's type, or leave the field out, with output.schema"
        ),
    ),
    "schema.value": (
        DataError,
        "{path}: {why}; a value cannot be what this run would make of it: name other types with output.schema",
    ),
    "format": (DataError, "{path}: {what}; {cure}"),
    "encoding": (DataError, "{path}: the file is {encoding} text; convert it to a single-byte encoding or UTF-8"),
    "changed": (
        DataError,
        (
            "{path}: the file changed while it was read (it had {before} bytes, {after} were read); let it be written "
            "whole before the run"
        ),
    ),
    "sequence.missing": (
        DataError,
        (
            "{path}: order comes from file names, and this name has no sequence: digits after the last '_' of the "
            "stem, as in ups_prod_1427761080.txt; rename the file, or set temporal.ordering.field.ordinal"
        ),
    ),
    "feed.empty": (DataError, "{path}: sync.mode=full needs a complete snapshot, and the feed has no rows; {cure}"),
    "feed.sequences": (
        DataError,
        (
            "sync.mode=full takes one snapshot, and the feed files have different sequences ({sequences}); "
            "run one snapshot at a time, oldest first"
        ),
    ),
    "deletes": (
        DataError,
        (
            "the run would remove {removed} of {master} master rows, and max.delete.fraction is {fraction}; "
            "if that is meant, run again with -D max.delete.fraction=1"
        ),
    ),
    "horizon": (
        DataError,
        (
            "{count} inserted records are older than {horizon}, the newest tombstone that has expired, so they may "
            "have been deleted before (for example {samples}); accept them with -D before.horizon=insert"
        ),
    ),
    "control.missing": (
        DataError,
        "{paths}: has no control file (feed.control.suffix={suffix}); wait for it, or leave feed.control.suffix out",
    ),
    "control.orphan": (
        DataError,
        "{paths}: a control file whose feed file is not in the feed; wait for that and name it, or take this one away",
    ),
    "control.unusable": (
        DataError,
        "{path}: the control file cannot be used: {why}; it needs lines like rows=120, or one as sha256sum writes it",
    ),
    "control.differs": (DataError, "{what}; have the feed file delivered again, and its control file with it"),
    # 4: storage
    "storage": (StorageError, "{path}: {why}; see to the path, its rights and the space that is left"),
    "storage.service": (StorageError, "{path}: {why}; see to the address, the credentials and the service"),
    "storage.exists": (StorageError, "{path}: {why}; see to the path, its rights and the space that is left"),
    "storage.missing": (StorageError, "{path}: {why}; see to the path, its rights and the space that is left"),
    "commit.uncertain": (
        StorageError,
        (
            "{path}: whether version {version} was committed is not known ({why}); nothing was removed, and the next "
            "command of this base finds out"
        ),
    ),
    "publish.uncertain": (
        StorageError,
        "{path}: whether it was written is not known ({why}); nothing was removed: run again, and it is found out",
    ),
    "publish.later": (
        StorageError,
        (
            "{path}: version {version} is committed, and putting everything in its place failed: {why}; the next "
            "command of this base goes on with it"
        ),
    ),
    "sums": (
        StorageError,
        "the run does not add up, and nothing was published: {problems}; run again, and report it if it happens twice",
    ),
    "receipt": (
        StorageError,
        "{path}: {why}; the staged file is not what its task wrote, and nothing was published; run again",
    ),
    "task": (
        StorageError,
        "Spark gave up after its retries: {why}; mend that, or find the first failure in Spark's log, and run again",
    ),
    "spark.lost": (
        StorageError,
        (
            "Spark's JVM has ended ({why}); nothing was published. If it ran out of memory, give it more "
            "(SPARK_DRIVER_MEMORY=4g, or spark-submit --driver-memory), and run again"
        ),
    ),
    "report": (StorageError, "the report cannot be written ({why}), and {output} is published as it should be"),
    # 5: state
    "output.exists": (
        StateError,
        "{path}: the output directory exists already; name a new one, or move this one away",
    ),
    "output.busy": (
        StateError,
        (
            "{path}: another run is writing this output now ({staging}); wait for it, or name another output. "
            "If you know that it has ended, on a machine that cannot be seen from here, remove what is named"
        ),
    ),
    "base.none": (
        ConfigError,
        "{path}: is no base of a workflow: it has neither master/ nor incr/; check the path, or make them",
    ),
    "base.place": (
        ConfigError,
        (
            "{path}: is a {what}; it must be a directory of the base itself, because master/ and the places around it "
            "change by getting other names"
        ),
    ),
    "base.busy": (
        StateError,
        (
            "{path}: {run}, process {process} on {host}, is at work here since {since}; wait for it, or end it. "
            "If that machine is gone, its lock is free when lock.timeout has passed"
        ),
    ),
    "base.alone": (
        StateError,
        (
            "{path}: this storage lets one process overwrite what another has created (it does not honour conditional "
            "puts), so only one may be at work here, and {run}, process {process} on {host}, is since {since}. Wait "
            "for it; if you know that it has ended, remove {lock}"
        ),
    ),
    "base.lost": (
        StateError,
        (
            "{path}: another run committed version {version} meanwhile, so this one's result is out of date and was "
            "removed; its feed files are back in incr/: run again"
        ),
    ),
    "base.master": (
        StateError,
        (
            "{path}: is not the dataset of version {version} ({dataset}), and no directory in output/ or backup/ is; "
            "put it back, or make an older version the master: mutator workflow restore BASE --to VERSION"
        ),
    ),
    "base.log": (
        StateError,
        (
            "{path}: there are old masters in backup/, and the log, _mutator/log/, is not there; put it back from "
            "a copy, or begin anew: move backup/, archive/ and output/ away"
        ),
    ),
    "base.version": (StateError, "{path}: {why}; mutator workflow history shows the versions that can be restored"),
    "log.damaged": (StateError, "{path}: the log entry is damaged ({why}); restore it from a copy of the base"),
    "log.newer": (
        StateError,
        "{path}: the log entry has format version {version}, and this program knows {known}; use a newer program",
    ),
    "feed.reused": (
        DataError,
        (
            "{path}: a feed file of this name was merged before with another content ({before} bytes then, {after} "
            "now){why}; give the new file a name of its own, or accept it with -D reused.names=accept"
        ),
    ),
    "feed.late": (
        DataError,
        (
            "{paths}: older than what was merged before (sequence {last}), and late.files=fail; take it out of the "
            "feed, or merge it record by record with -D late.files=merge"
        ),
    ),
    "feed.gaps": (
        DataError,
        (
            "these sequences have not arrived: {gaps}; sequence.gaps=fail: wait for the files, or go on without them "
            "with -D sequence.gaps=report"
        ),
    ),
    "manifest.damaged": (
        StateError,
        (
            "{path}: the manifest is damaged ({why}); restore it from a copy, or set master.adopt=true to take the "
            "directory's files as an unmanaged master (tombstones and row sequences are then forgotten)"
        ),
    ),
    "manifest.newer": (
        StateError,
        "{path}: the manifest has format version {version}, and this program knows {known}; use a newer program",
    ),
    "manifest.files": (
        StateError,
        (
            "{path}: the directory is not what its manifest says: {what}; restore it, or set master.adopt=true to take "
            "the files that are there as an unmanaged master (tombstones, row sequences and the rows of files that are "
            "missing are then forgotten)"
        ),
    ),
    "manifest.spec": (
        StateError,
        (
            "{path}: the master was written with {name} = {before}, and this run has {now}; "
            "use the same setting, or set master.adopt=true to start anew from its rows"
        ),
    ),
    "manifest.damage": (StateError, "{path}: {why}; the master's file is damaged: restore it from a copy"),
    "snapshot.older": (
        StateError,
        (
            "the snapshot's highest order value is {now}, and the master has already had one with {before}; "
            "if the older one is meant, run again with -D allow.older.snapshot=true"
        ),
    ),
    "table.changed": (
        StateError,
        "{table}: the table changed while it {what}; nothing was published: run again when nobody else writes to it",
    ),
    "table.place": (ConfigError, "{path}: {why}; {cure}"),
    # 70: a bug
    "bug": (MutatorError, "{what}; this is a bug of mutator: please report it with this text"),
}
FAMILIES = {family.exit_code: family for family in (ConfigError, DataError, StorageError, StateError)}
CATALOGUE |= {f"hive.{kind}": (FAMILIES[code], text) for kind, (code, text) in HIVE.items()}


def error(kind: str, **fields: object) -> MutatorError:
    """Make the error of a kind of the catalogue.

    >>> error("output.exists", path="out").exit_code
    5
    """
    family, template = CATALOGUE[kind]
    shown = {name: printable(without_secrets(str(value))) for name, value in fields.items()}
    shown |= {name: shown[name].replace("\n", "\\n") for name in ("path", "staging") if name in shown}
    return rebuilt(kind, template.format(**shown))


def printable(text: str) -> str:
    """Escape what could confuse a terminal or a log; line feeds stay.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text
    )


def rebuilt(kind: str, message: str) -> MutatorError:
    """Return the error that had this text, on the other side of a pickle."""
    made = CATALOGUE[kind][0](message)
    made.kind = kind
    made.add_note(NOTE.format(kind))  # a traceback is all that comes back from a task that failed
    return made


def told(text: str) -> MutatorError | None:
    """Return the error whose traceback stands in a text.

    >>> told("… mutator.errors.DataError: a: two\\nlines\\n(error damaged of mutator)\\n\\tat org.apache…").kind
    'damaged'
    """
    found = _TOLD.search(text)
    return rebuilt(found[2], found[1]) if found and found[2] in CATALOGUE else None


def key_text(key: tuple[bytes, ...]) -> str:
    """Show a record ID in a message or report."""
    return ",".join(value.decode("utf-8", "backslashreplace") for value in key)
