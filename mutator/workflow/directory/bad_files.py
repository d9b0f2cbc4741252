"""Feed files that cannot be merged are set aside, so that the others beside them are.

    failed/<run>/       the feed files that a run has set aside, with their control files and ready markers
    failed/<run>.json   its note: why, and of which content

A run that meets a file at fault merges again without it. The files go to failed/ once that merge is committed; until
then they are in the journal, and if no version is committed, all files go back. So a file is set aside only where the
same settings merged another one: if every file is bad, the settings may be at fault, and the run fails.

On a storage without renames the files stay in incr/, and the note keeps later runs from claiming them.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from mutator.config.settings import Config, InputSpec, LimitSpec
from mutator.dataset import checksummed_json
from mutator.dataset.commits import Arrived
from mutator.errors import MutatorError
from mutator.errors.display import one_line, without_secrets
from mutator.errors.failpoints import failpoint
from mutator.errors.parts import paths_in, place
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.file_names import base_name
from mutator.storage import Entry, entries_of, read_if_exists
from mutator.workflow.directory.arrivals import ReadyFile
from mutator.workflow.directory.paths import FAILED, Base

COUNT = "feed files set aside"  # name of a count of a version that has any
TRIES = 100  # merges of one run; each finds at least one bad file
_FORMAT = "mutator failed files"
_NOTE = re.compile(r"([^.].*)\.json")
_CHARACTERS = 2000  # of a reason, at most
_LINE_END = re.compile(r"\n\s*")
# The kinds of errors that can be the fault of one feed file. Those of limits, of the order of all files, and of what
# the feed as a whole says are not among them, nor are those of a file that is being written.
_KINDS = {
    *("binary", "compression", "compression.unknown", "damaged", "encoding", "format", "markup", "width"),
    *("schema.field", "schema.lost", "schema.type", "schema.value"),
    *("control.differs", "control.unusable", "feed.reused", "rejects", "sequence.missing"),
}
_ANYWHERE = {"schema.type"}  # kinds whose message does not begin with the path; of two, the second differs


@dataclass(frozen=True)
class BadFile:
    """A feed file that cannot be merged."""

    name: str
    kind: str  # of its error
    why: str
    file: Arrived
    control: Arrived | None = None  # its control file, on a storage without renames


@dataclass(frozen=True)
class FailedFile:
    """A feed file that was set aside."""

    name: str
    path: str
    run: str
    failed: str  # when: ISO 8601, in UTC
    kind: str  # of its error
    why: str
    merged: bool  # a later version has a file of its name: it was delivered again

    @property
    def said(self) -> str:
        """Why it was set aside, with its path."""
        return self.why if self.path in self.why else f"{self.path}: {self.why}"

    def problem(self, incr: str, note: str | None) -> str:
        """Return what to do. incr: where feed files arrive. note: keeps the file there from being claimed, or None."""
        again = f"correct it or the settings and move it to {incr}/ again"
        if note is not None:
            again = f"correct the settings and remove {note}"
        cure = f"To merge it, have a correct one delivered, or {again}; to give it up, remove it"
        return f"a feed file was set aside at {self.failed}: {self.said}. {cure}"


def why_all_or_none(config: Config) -> str | None:
    """Return the setting with which the feed files of a run are merged all or not at all; None without one."""
    if config.workflow.bad_files == "fail":
        return "bad.files=fail"
    if config.operation.full:
        return "sync.mode=full"
    if config.operation.overwrites:
        return f"write.operation={config.operation.name}"
    if config.rows.order.by_file_name and config.inputs.late_files == "fail":
        return "late.files=fail"
    return "sequence.gaps=fail" if config.inputs.sequence_gaps == "fail" else None


def blamed(
    fault: MutatorError, directory: str, names: Collection[str], inputs: InputSpec, limits: LimitSpec
) -> dict[str, str]:
    """Return those feed files in a directory whose fault an error is: name -> what its message says of that file.

    >>> from mutator.errors import error
    >>> fault = error("binary", path="in/ups_1.txt")
    >>> blamed(fault, "in", ["ups_1.txt", "s_1.txt"], InputSpec(), LimitSpec()).keys()
    dict_keys(['ups_1.txt'])
    """
    # With reject.policy=quarantine too many rejects are those of the whole feed.
    if fault.kind not in _KINDS or (fault.kind == "rejects" and limits.reject_policy != "fail"):
        return {}
    if fault.fields.get("standard", "").removeprefix(f"{directory}/") in names:
        return {}  # nothing says that this one is right, and the others are not
    shown = {one_line(name): name for name in names}
    if inputs.control_suffix:
        shown |= {one_line(name + inputs.control_suffix): name for name in names}
    prefix = one_line(without_secrets(f"{directory}/"))

    def name_in(line: str) -> str | None:
        paths = paths_in(line)
        if fault.kind not in _ANYWHERE:
            paths = [path for path in paths[:1] if line.lstrip(" ").startswith(place(path))]
        found = [shown.get(path.removeprefix(prefix)) for path in paths if path.startswith(prefix)]
        return next((name for name in reversed(found) if name is not None), None)

    lines = [line for text in (fault.message, fault.fields.get("others", "")) if text for line in text.split("\n")]
    found = {name: lines for name in map(name_in, lines) if name is not None}
    for path, message in json.loads(fault.fields.get("by_file", "{}")).items():  # with the counts of this file alone
        name = shown.get(one_line(path).removeprefix(prefix))
        if name in found:
            found[name] = message.split("\n")
    return {
        name: "\n".join(
            line if own else _without_hints(line, found.keys() - {name})
            for line in lines
            if (own := name_in(line)) in (None, name)
        )
        for name, lines in found.items()
    }


def _without_hints(line: str, names: Collection[str]) -> str:
    """Return a line without its sentences on some files.

    >>> _without_hints(f"In the first row of {place('a.csv')}, 1 is text. Fix the row; or leave it out", {"a.csv"})
    'Fix the row; or leave it out'
    """
    hidden = {one_line(name) for name in names}
    return ". ".join(one for one in line.split(". ") if hidden.isdisjoint(map(base_name, paths_in(one))))


def reason(base: Base, run: str, name: str, text: str) -> str:
    """Return why a file is set aside, in one line, with the paths that it and others have afterwards."""
    claimed = base.at("working", run)
    moved = {f"{claimed}/{name}": base.at(FAILED, run, name), claimed: base.at("archive", run)}
    text = one_line(_LINE_END.sub(" ", without_secrets(base.said(text, moved))))
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def record(base: Base, run: str, since: int, files: Sequence[BadFile]) -> None:
    """Note which files a run that committed has set aside. since: the version that it started from."""
    if not files:
        return
    base.storage.make_directory(base.at(FAILED))
    failpoint("failed.directory")
    members = {"run": run, "since": since, "failed": _now(), "files": [asdict(one) for one in files]}
    base.storage.replace(_note_path(base, run), checksummed_json.dump(_FORMAT, 1, members))
    failpoint("failed.noted")


@dataclass(frozen=True)
class _Note:
    run: str
    since: int
    failed: str
    files: tuple[BadFile, ...]


def parsed(files: Iterable[Mapping[str, object]]) -> tuple[BadFile, ...]:
    """Return bad files from their JSON objects. Raises TypeError or ValueError."""
    return tuple(_bad_file(dict(one)) for one in files)


def _bad_file(members: dict[str, object]) -> BadFile:
    file, control = members.pop("file"), members.pop("control")
    if not isinstance(file, Mapping) or not isinstance(control, Mapping | None):
        raise TypeError("no objects")
    return BadFile(**members, file=Arrived(**file), control=Arrived(**control) if control else None)  # type: ignore[arg-type]


def _notes(base: Base) -> list[_Note]:
    """Return the notes, oldest first. A damaged one is forgotten: the next run finds the file again."""
    found = []
    for entry in entries_of(base.at(FAILED)):
        data = read_if_exists(entry.path) if entry.type == "file" and _NOTE.fullmatch(entry.name) else None
        try:
            if data is not None:
                members = checksummed_json.parse(data, _FORMAT, 1)
                files = parsed(members["files"])
                found.append(_Note(members["run"], members["since"], members["failed"], files))
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _note_path(base: Base, run: str) -> str:
    return base.at(FAILED, f"{run}.json")


def _places(base: Base) -> list[tuple[_Note, dict[str, Entry]]]:
    """Return each note with those of its files that are still set aside, by name."""
    notes = _notes(base)
    if not notes or base.storage.renames:
        return [(note, _there(note, entries_of(base.at(FAILED, note.run)))) for note in notes]
    incr = entries_of(base.at("incr"))
    return [(note, _there(note, incr, same=True)) for note in notes]


def _there(note: _Note, entries: Iterable[Entry], *, same: bool = False) -> dict[str, Entry]:
    """Return the files of a note that are among some entries. same: only those with the same content."""
    files = {one.name: one.file for one in note.files}
    there = {entry.name: entry for entry in entries if entry.name in files}
    return {name: one for name, one in there.items() if not same or _is_same(one, files[name])}


def _is_same(entry: Entry, file: Arrived) -> bool:
    return (entry.bytes, entry.modified, entry.tag) == (file.bytes, file.modified, file.tag)


def _has_another(incr: Mapping[str, Entry], control: Arrived | None) -> bool:
    """Return whether a control file has been rewritten. incr: the files in incr/, by name."""
    return control is not None and control.name in incr and not _is_same(incr[control.name], control)


def settled(base: Base) -> set[Arrived]:
    """Return the files in incr/ that are set aside, and their control files, on a storage without renames.

    A file with another control file has arrived again.
    """
    files = [one for note in _notes(base) for one in note.files]
    if any(one.control is not None for one in files):
        incr = {entry.name: entry for entry in entries_of(base.at("incr"))}
        files = [one for one in files if not _has_another(incr, one.control)]
    return {file for one in files for file in (one.file, one.control) if file is not None}


def failed_files(base: Base, merged: Callable[[int], Iterable[str]]) -> tuple[FailedFile, ...]:
    """Return the files that are set aside. merged: returns the names of the files that the versions after one merged.

    Raises StorageError.
    """
    found = []
    for note, there in _places(base):
        again = set(merged(note.since)) if there else set[str]()
        for one in note.files:
            if one.name in there:
                path = base.shown(there[one.name].path)
                known = (note.run, note.failed, one.kind, one.why)
                found.append(FailedFile(one.name, path, *known, one.name in again))
    return tuple(found)


def problems(base: Base, files: Iterable[FailedFile]) -> list[str]:
    """Return a problem for each file that was set aside and not delivered again."""
    incr, moved = base.shown(base.at("incr")), base.storage.renames
    notes = [(one, None if moved else base.shown(_note_path(base, one.run))) for one in files if not one.merged]
    return [one.problem(incr, note) for one, note in notes]


def sweep(base: Base) -> None:
    """Remove the notes whose files have all been moved away, removed or replaced."""
    for note, there in _places(base):
        if not there:
            base.storage.remove(_note_path(base, note.run))
            failpoint("failed.forgotten")
            if base.storage.renames:
                base.storage.remove_directory(base.at(FAILED, note.run))


def of_run(base: Base, run: str, files: Iterable[BadFile]) -> tuple[FailedFile, ...]:
    """Return the files that a run has set aside just now."""
    directory, now = base.at(FAILED, run) if base.storage.renames else base.at("incr"), _now()
    return tuple(
        FailedFile(one.name, base.shown(f"{directory}/{one.name}"), run, now, one.kind, one.why, merged=False)
        for one in files
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass
class Tried:
    """What a watch remembers of a run that could merge none of its feed files: it waits until others have arrived."""

    again: bool = False  # the last run found the same files, settings and master, and did nothing
    version: int = 0  # that the run started from, or a later one up to which the target was as it was then
    _config: Config | None = None
    _files: frozenset[tuple[str, int, float, str]] = frozenset()

    @property
    def failed(self) -> bool:
        """Whether the last run that did something could merge none of its feed files."""
        return self._config is not None

    def look(self, config: Config, version: int | None, ready: Iterable[ReadyFile]) -> bool:
        """Return whether a run with these settings and files could only fail again.

        version: up to which the target is as it was; None if it is another.
        """
        self.again = version is not None and (self._config, self._files) == (config, _identities(ready))
        if version is None or not self.again:
            self._config, self._files = None, frozenset()
        else:
            self.version = version
        return self.again

    def note(self, config: Config, version: int, ready: Iterable[ReadyFile]) -> None:
        """Remember a run that could merge none of its feed files. version: that it started from."""
        self._config, self.version, self._files = config, version, _identities(ready)


def _identities(ready: Iterable[ReadyFile]) -> frozenset[tuple[str, int, float, str]]:
    """Return what tells files from others, also once a run has moved them back."""
    entries = (entry for one in ready for entry in (one.feed, one.control) if entry is not None)
    return frozenset((entry.name, entry.bytes, entry.last_write, entry.tag) for entry in entries)
