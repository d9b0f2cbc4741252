"""All files of a side have one format: the error that names those of another."""

from collections.abc import Iterable, Sequence

from mutator.errors import error
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.probe import format_of_name
from mutator.plan.inspect.source import Source
from mutator.rules.file_names import first_few

_MERGE_APART = {"feed": "merge them in a run of their own", "master": "merge them as a feed"}


def check_formats(side: str, sources: Iterable[Source], merged: Sequence[str] = (), otherwise: str = "") -> None:
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
    usual = next((name for name in (*(_possible(merged[-1]) if merged else ()), *frequent) if name in by_format), None)
    odd = [source for name, files in by_format.items() if name != usual for source in files]
    counts = ", ".join(f"{len(files)} {name}" for name, files in sorted(by_format.items()))
    what = f"the {side} has files of several formats ({counts})"
    others = first_few([source.name for source in odd[1:]])
    if usual is None:
        what += f"; the others are {others}"
    elif others:
        what += f"; {others} {'is' if len(odd) == 2 else 'are'} not {usual} either"
    cure = f"remove the files that do not belong, or set {side}.format"
    if any(FILE_FORMATS[name].typed for name in by_format):  # no setting makes them readable as another format
        cure = "remove the files that do not belong, or " + _MERGE_APART[side]
    raise error("format", path=odd[0].path, what=what, cure=cure)


def _possible(name: str) -> tuple[str, ...]:
    """Return the formats that a file of a name may have."""
    promised = format_of_name(name, named=True)
    if promised is None:
        return ("text", "escaped")
    return (promised, "text") if promised == "csv" else (promised,)
