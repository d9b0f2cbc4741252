"""The number of fields in a row of delimited text, and whether the master's rows have the op code column.

``field.count`` is ``auto``, a number, or ``any``. ``auto`` is the width in the manifest, else that of the first row of
the first master file by name, else of the first feed file. A number counts the fields of a feed row. If the feed has an
op code column, a master row has as many fields, or one less.
"""

from collections.abc import Iterable, Mapping, Sequence

from mutator.config.settings import RowSpec
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.parts import MASTER, place, setting
from mutator.plan.inspect.delete_files import may_have_ids_alone
from mutator.plan.inspect.headers import other_number_of_names
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.rules import file_names


def _first_with_rows(sources: Iterable[Source]) -> Source | None:
    """Return the first file by name that has rows."""
    ordered = sorted(sources, key=lambda source: source.name.encode("utf-8", "surrogateescape"))
    return next((source for source in ordered if source.width is not None), None)


def _first_width(sources: Iterable[Source]) -> int | None:
    first = _first_with_rows(sources)
    return None if first is None else first.width


def decide_widths(rows: RowSpec, survey: Survey) -> tuple[int | None, int | None, bool]:
    """Return the widths of feed and master rows (None: any), and whether the master has op codes."""
    known, has_op = survey.state, rows.ops.field is not None
    count = rows.text.count
    recorded = known.spec["width"] if known else None
    if count == "any" or (count == "auto" and recorded == "any"):
        in_master = bool(known.spec["op code"] is not None) if known else bool(rows.ops.in_master)
        if has_op and known is None and rows.ops.in_master is None and survey.master:
            raise error(
                "width",
                where=survey.master_path,
                what=f"with {setting('field.count=any')} it cannot be seen whether the rows carry the op code column",
                cure=f"set {setting('op.code.in.master=true or false')}",
            )
        return None, None, has_op and in_master
    master = recorded if isinstance(recorded, int) else _first_width(survey.master)
    feed = _first_width(source for source in survey.feed if not may_have_ids_alone(rows, source))
    if isinstance(count, int):
        feed = count
    if not has_op:
        width = count if isinstance(count, int) else master or feed
        return width, width, False
    if known is not None and (survey.master or recorded):
        in_master = known.spec["op code"] is not None
    elif rows.ops.in_master is not None:
        in_master = rows.ops.in_master
    elif master is None:
        in_master = rows.ops.keep
    else:
        in_master = _infer_op_in_master(rows, survey, feed, master)
    if master is not None and not isinstance(count, int):
        feed = master if in_master else master + 1
    if isinstance(count, int):
        master = count if in_master else count - 1
    return feed, master if master is not None or feed is None else feed - (not in_master), in_master


def _infer_op_in_master(rows: RowSpec, survey: Survey, feed: int | None, master: int) -> bool:
    if feed is None and master <= max(rows.fields):
        return False  # the rows are too narrow for the feed's layout
    paths: dict[int, list[str]] = {}
    for source in survey.feed:
        if source.width is not None:
            paths.setdefault(source.width, []).append(source.path)
    if paths.keys() == {master}:
        return True
    if paths.keys() == {master + 1}:
        return False
    # One file without the column must not make the master lose one.
    raise _unclear_op_code(survey.master_path, master, paths)


def _unclear_op_code(master_path: str, master: int, paths: Mapping[int, Sequence[str]]) -> MutatorError:
    """Return the error of a feed that does not show whether the master's rows have op codes.

    master: number of fields of its rows. paths: of the feed files, by the number of fields of their rows.
    """
    where, what = master_path, f"the first row has {counted(master, 'field')}, and the feed has no rows to compare with"
    if paths:
        # The file to look at is one that fits neither way, or one of a few that differ from the others.
        width = min(paths, key=lambda number: (number in (master, master + 1), len(paths[number]), number))
        where, what = paths[width][0], f"the first row has {counted(width, 'field')}"
        others = [number for number in paths if number != width]
        if others:
            usual = max(others, key=lambda number: len(paths[number]))
            what += f", that of {file_names.base_name(paths[usual][0])} has {usual}"
        what += f", and {MASTER}'s rows ({place(master_path)}) have {master}"
    return error(
        "width",
        where=where,
        what=f"{what}; with op codes {MASTER}'s rows have as many fields as the feed's, without one less",
        cure=f"correct the file, or set {setting('op.code.in.master=true or false')}, and {setting('field.count')} to "
        "the number of fields of a feed row",
    )


def standard(rows: RowSpec, survey: Survey) -> str:
    """Return the path of the feed file that alone says how many fields a row has; empty if most others agree."""
    has_width = survey.state is not None and isinstance(survey.state.spec["width"], int)
    feed = [source for source in survey.feed if not may_have_ids_alone(rows, source)]
    first = _first_with_rows(feed)
    if rows.text.count != "auto" or has_width or first is None or _first_with_rows(survey.master) is not None:
        return ""
    alike = [source.width == first.width for source in feed if source.width is not None]
    return first.path if 2 * sum(alike) <= len(alike) else ""


def width_from(rows: RowSpec, survey: Survey) -> str:
    """Return why a row has as many fields as ``decide_widths`` has decided, for messages."""
    if isinstance(rows.text.count, int):
        return f"{setting('field.count')} is {rows.text.count}"
    if survey.state is not None and isinstance(survey.state.spec["width"], int):
        return f"{MASTER}'s manifest says so"
    feed = [source for source in survey.feed if not may_have_ids_alone(rows, source)]
    first = _first_with_rows(survey.master) or _first_with_rows(feed)
    return f"{first.name} begins with such a row" if first is not None else ""


def check_names(rows: RowSpec, survey: Survey, feed_width: int | None) -> None:
    """Raise ConfigError if ``field.names`` has fewer or more names than a feed row has fields.

    feed_width: the number of its fields, None for any. A number in ``field.count`` was compared with the names before.
    """
    names = rows.text.names
    if not names or feed_width in (None, len(names)) or isinstance(rows.text.count, int):
        return
    known = survey.state
    if known is not None and isinstance(known.spec["width"], int):
        path, width, whose = survey.master_path, known.spec["width"], "by its manifest, a row"
    else:
        feed = [source for source in survey.feed if not may_have_ids_alone(rows, source)]
        first = _first_with_rows(survey.master) or _first_with_rows(feed)
        assert first is not None
        assert first.width is not None
        path, width, whose = first.path, first.width, "its first row"
    what = f"{whose} has {counted(width, 'field')}"
    if width != feed_width:
        what += f" without the op code, so a feed row has {feed_width}"
    raise other_number_of_names(path, what, names, single=width == 1)
