"""Delete files: feed files whose rows are all deletes, and those whose rows have the fields of the record ID alone.

Where order comes from file names, a delete needs no field but the ID. The first row of a delete file decides for all
its rows: if it has as many fields as the ID, and fewer than a whole row, each row has the ID alone, its fields in the
order of ``id.field.ordinals``. Otherwise each row is a whole row. A row of the other width is a reject.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mutator.config.settings import KeySpec, OperationSpec, OpSpec, RowSpec
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.parts import option, place, setting
from mutator.plan.inspect.source import Source
from mutator.rules import file_names
from mutator.rules.op_codes import meaning_of, named_like_op_codes

_NO_FILE = re.compile("(?!)")  # deleted.record.file.pattern=none


def is_delete_source(ops: OpSpec, source: Source) -> bool:
    """Return whether every row of a feed file is a delete, by its name."""
    is_named = not source.is_table and file_names.is_delete_file(source.name, ops.delete_prefix, ops.delete_pattern)
    return ops.field is None and is_named


def named_like_deletes(
    ops: OpSpec, operation: OperationSpec, feed: Sequence[Source], others: Iterable[str]
) -> dict[str, str]:
    """Return the names of feed files that have a word for deletes, though their rows are read as upserts.

    The values are these words; within a name, with the signs around them. ``del`` begins many names of places, too: if
    other words follow, it counts only if they also follow the first word of another name. others: names of the master's
    files, and of feed files that were merged before.
    """
    if ops.field is not None or operation.full or ops.delete_pattern == _NO_FILE:
        return {}
    files = [source for source in feed if not source.is_table]
    names = sorted({source.name for source in files if not is_delete_source(ops, source)})
    found = {name: word for name in names if (word := file_names.delete_word(name))}
    if any(map(file_names.may_be_place, found)):
        known = {file_names.words(name) for name in (*(source.name for source in files), *others)}
        later = {words[1:] for words in known if words[:1] != ("del",)}
        found = {
            name: word
            for name, word in found.items()
            if not file_names.may_be_place(name) or file_names.words(name)[1:] in later
        }
    within = {name: word for name in names if (word := file_names.delete_word_within(name))}
    return {**within, **found}


def check_delete_names(ops: OpSpec, operation: OperationSpec, feed: Sequence[Source], others: Iterable[str]) -> None:
    """Raise DataError for such names, of files and of their directories."""
    check_delete_directories(ops, operation, feed)
    named = named_like_deletes(ops, operation, feed, others)
    if not named:
        return
    raise _names_error(ops, file_names.first_few(list(map(place, named))), named, "")


def check_delete_directories(ops: OpSpec, operation: OperationSpec, feed: Sequence[Source]) -> None:
    """Raise DataError for feed files in a directory with a name for deletes, whose rows are read as upserts."""
    if ops.field is not None or operation.full or ops.delete_pattern == _NO_FILE:
        return
    parents = {source.path: source.path.rpartition("/")[0] for source in feed if not source.is_table}
    named = {one for one in {*parents.values()} if _is_of_deletes(file_names.base_name(one))}
    for source in feed:
        if parents.get(source.path) not in named or file_names.is_named_like_upserts(source.name):
            continue
        if not is_delete_source(ops, source):
            directory, name = file_names.base_name(parents[source.path]), f"deletes_{source.name}"
            raise _names_error(
                ops, place(f"{directory}/{source.name}"), {name: "deletes"}, f"names such as {name} and "
            )


def _is_of_deletes(directory: str) -> bool:
    """Return whether a directory is named like deletes; one of a partition only if its field is like an op code."""
    field, is_partition, value = directory.partition("=")
    if is_partition:
        return named_like_op_codes(field) and meaning_of(value.encode("utf-8", "surrogateescape"), field) == "delete"
    return file_names.is_delete_directory(directory)


def _names_error(ops: OpSpec, paths: str, named: Mapping[str, str], names: str) -> MutatorError:
    """Return the error of files that are named like deletes. named: as in ``named_like_deletes``."""
    settings = {"prefix": ops.delete_prefix, "pattern": ops.delete_pattern and ops.delete_pattern.pattern}
    given = [f"deleted.record.file.{key} is {value}" for key, value in settings.items() if value is not None]
    word = next(iter(named.values()))
    if not given and {*named.values()} == {word} and all(name.startswith(word) for name in named):
        cure = option("deleted.record.file.prefix", word)
    else:
        cure = option("deleted.record.file.pattern", delete_pattern(named, settings["pattern"]))
    otherwise = "rename the files" if given else setting("-D deleted.record.file.pattern=none")
    known = " and ".join(given) or "no setting says that they contain deletes"
    return error("delete.names", paths=paths, known=known, cure=names + cure, otherwise=otherwise)


def delete_pattern(named: Mapping[str, str], known: str | None = None) -> str:
    """Return the pattern of names that have words for deletes. named: name to its word. known: a pattern to extend.

    >>> delete_pattern({"a_del_1.txt": "_del_", "b_del_2.txt": "_del_", "del_3.txt": "del"})
    '_del_|^del(?![A-Za-z])'
    """
    words = (
        f"^{re.escape(word)}(?![A-Za-z])" if name.startswith(word) else re.escape(word) for name, word in named.items()
    )
    return "|".join(dict.fromkeys([*([] if known is None else [known]), *words]))


def delete_prefix_warnings(ops: OpSpec, feed: Sequence[Source]) -> Iterator[str]:
    """Yield a warning if delete files begin with a longer word than the prefix.

    Usual words for deletes are left out: with the prefix ``del``, the rows of ``deletes_7.txt`` are deletes.
    """
    names = sorted({source.name for source in feed if is_delete_source(ops, source)})
    prefix = ops.delete_prefix or ""
    found = [name for name in names if file_names.ends_in_word(name, prefix) and file_names.delete_word(name) is None]
    if found:
        yield (
            f"{file_names.first_few(list(map(place, found)))}: all rows are read as deletes, because "
            f"{setting('deleted.record.file.prefix')} is '{prefix}', though a longer word begins the name: if they are "
            f"upserts, make the prefix longer, such as '{prefix}_'; if they are deletes, set the whole word"
        )


def may_have_ids_alone(rows: RowSpec, source: Source) -> bool:
    """Return whether the rows of a feed file may have the ID alone: it is a delete file, ordered by its name."""
    return rows.order.by_file_name and is_delete_source(rows.ops, source)


def has_ids_alone(rows: RowSpec, source: Source, whole: int) -> bool:
    """Return whether the rows of a feed file have the ID alone. whole: the least number of fields of a whole row."""
    return may_have_ids_alone(rows, source) and source.width == len(rows.key.ids) < whole


def id_names(key: KeySpec, field_names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the ID fields. field_names: those of a whole row, for IDs that are given by ordinals."""
    last = len(field_names) - 1
    return tuple(one if isinstance(one, str) else field_names[min(one, last)] for one in key.ids)


def notes_on_ids(key: KeySpec, sources: Sequence[Source], field_names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on the delete files whose rows have the ID alone, if there are any. field_names: may be empty."""
    if not sources:
        return ()
    fields = id_names(key, field_names) if field_names else key.ids
    shown = file_names.first_few([source.name for source in sources])
    width, names = counted(len(fields), "field"), ",".join(map(str, fields))
    return (f"{shown}: the first row has {width}, so all rows are read as IDs alone: {names}",)
