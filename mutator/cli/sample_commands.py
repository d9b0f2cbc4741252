"""The commands ``mutator sample …``: rows of sample data.

mutator sample new ROWS                         rows with new IDs
mutator sample upsert ROWS --master FILE        updates of master rows, and inserts
mutator sample delete ROWS --master FILE        deletes of master rows

The command ``mutator demo``.

mutator demo                    copy the sample data to mutator-demo/, merge them there, and show three records
mutator demo DIR                the same in another new directory
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mutator.cli import options
from mutator.cli.command import Command, CommandReport, CommandRows, Group, option
from mutator.errors import error
from mutator.errors.display import command, text_of

_DIRECTORY = "mutator-demo"
# The same files as sample_data/ in a checkout.
_PACKAGED = Path(__file__).parent / "sample" / "data"
_PUBLISHED_ID = "VR8NCNE7DV"  # of the example in the published tutorial


class _Record(NamedTuple):
    """A record of the demo: its row in each file, or None."""

    outcome: str
    master: str | None
    upsert: str | None
    delete: str | None
    result: str | None


def _demo(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.config import load
    from mutator.pipeline.merge import carry_out, prepare

    directory = arguments.directory
    _copy_samples(directory)
    product, output = f"{directory}/sample_data/product", f"{directory}/merged"
    config, master, feed = f"{product}/bumu.properties", f"{product}/master", f"{product}/feed"
    if not arguments.json:
        words = ("--config", config, "--master", master, "--feed", feed, "--output", output)
        shown = command("run", "--runner", "local", *words)
        yield CommandReport(f"copied the sample data to {directory}/sample_data\n\n$ {shown}")
    prepared = prepare(load(config, ["runner=local"]), master, [feed], output)
    _, report = carry_out(prepared, options.merge_on("local", options.spark("mutator demo", arguments), arguments))
    records = _three_records(Path(product), Path(output))
    if arguments.json:
        members = {
            "directory": directory,
            "report": json.loads(report.json()),
            "records": [record._asdict() for record in records],
        }
        yield CommandReport(json.dumps(members, indent=1), report.warnings)
    else:
        yield CommandReport(f"{options.text_of(report, arguments)}\n\n{_text(records)}", report.warnings)
        yield CommandReport(f"\nNext: cd {directory}, where the commands of the README work, too.")


def _copy_samples(directory: str) -> None:
    """Create a directory with a copy of the packaged samples in it."""
    target = Path(directory)
    if "://" in directory:
        raise error("usage", what=f"{directory}: the demo runs on a local disk; name a local directory")
    if not _PACKAGED.is_dir():
        raise error("path.missing", path=_PACKAGED, what="directory of sample data; mutator runs from an archive")
    try:
        target.mkdir(parents=True)
        for source in sorted(path for path in _PACKAGED.rglob("*") if path.is_file()):
            copy = target / "sample_data" / source.relative_to(_PACKAGED)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    except FileExistsError:
        raise error("demo.exists", path=directory) from None
    except OSError as fault:
        raise error("storage", path=fault.filename or directory, why=fault.strerror) from None


def _three_records(product: Path, output: Path) -> list[_Record]:
    """Return a record that was updated, one that was inserted, and one that was deleted."""
    master = _rows_by_id([product / "master/base_prod.txt"])
    upserts = _rows_by_id([product / "feed/ups_prod.txt"])
    deletes = _rows_by_id([product / "feed/del_prod.txt"])
    results = _rows_by_id(sorted(output.glob("part-*")))
    inserted = next(record_id for record_id in upserts if record_id not in {**master, **deletes})
    return [
        _Record(outcome, *(rows.get(record_id) for rows in (master, upserts, deletes, results)))
        for outcome, record_id in (("updated", _PUBLISHED_ID), ("inserted", inserted), ("deleted", next(iter(deletes))))
    ]


def _rows_by_id(paths: Sequence[Path]) -> dict[str, str]:
    rows = [row for path in paths for row in path.read_text(encoding="ascii").splitlines()]
    return {row.partition(",")[0]: row for row in rows}


def _text(records: Sequence[_Record]) -> str:
    notes = {"updated": ": the inventory, the fifth field, goes from 88 to 82"}
    lines = ["Three records, before and after:"]
    for record in records:
        outcome, *rows = record._asdict().items()
        lines += ["", f"{outcome[1]}{notes.get(record.outcome, '')}"]
        lines += [f"  {name:<7}  {row or '-'}" for name, row in rows]
    return text_of(lines)


DEMO = Command(
    "demo",
    "copy the sample data into a new directory, merge them there, and show three rows before and after",
    (
        option(
            "directory",
            nargs="?",
            default=_DIRECTORY,
            metavar="DIR",
            help=f"directory, which must not exist (default {_DIRECTORY})",
        ),
        options.JSON,
    ),
    _demo,
    examples=("mutator demo", "mutator demo /tmp/demo --json"),
)


def _rows_of(command: str) -> Callable[[argparse.Namespace], Iterator[CommandRows]]:
    """Return the function of a command: "new", "upsert" or "delete"."""

    def carry_out(arguments: argparse.Namespace) -> Iterator[CommandRows]:
        from mutator.cli import sample  # its tables take milliseconds, which every other command would wait for

        make: Callable[..., Iterator[bytes]] = getattr(sample, command)
        table = {"product": sample.PRODUCTS, "sales": sample.SALES}[arguments.table]
        if arguments.op_code and arguments.table == "sales":
            raise error("usage", what="--op-code: the sales table has no op code column; leave it out")
        op_code_at = sample.OP_CODE_ORDINAL if arguments.op_code else None
        with ExitStack() as stack:
            masters = [_opened(path, stack) for path in getattr(arguments, "master", ())]
            given = [chain(*masters)] if masters else []
            yield CommandRows(_checked(make(arguments.rows, arguments.seed, *given, table, op_code_at=op_code_at)))

    return carry_out


def _opened(path: str, stack: ExitStack) -> Any:
    try:
        return stack.enter_context(open(path, "rb"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as fault:
        raise error("path.missing", path=fault.filename, what="file") from None
    except OSError as fault:
        raise error("storage", path=fault.filename, why=fault.strerror) from None


def _checked(rows: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from rows
    except ValueError as fault:
        raise error("usage", what=fault) from None


_NEW = (
    option("rows", metavar="ROWS", type=int, help="number of rows"),
    option(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of the random values; the same seed gives the same rows (default 1)",
    ),
    option("--table", choices=("product", "sales"), default="product", help="table of sample data (default product)"),
    option("--op-code", action="store_true", help="add an op code column (product only)"),
)
_MUTATIONS = (
    *_NEW,
    option("--master", action="append", required=True, metavar="FILE", help="a master file; repeatable"),
)
_UPSERT = "write updates of master rows, and inserts; all newer than the master"
_DELETE = "write deletes of master rows; all newer than the master"
SAMPLE = Group(
    "sample",
    "write rows of sample data to stdout, the same for the same seed",
    (
        Command(
            "new", "write rows with new IDs", _NEW, _rows_of("new"), examples=("mutator sample new 1000 > master.txt",)
        ),
        Command(
            "upsert",
            _UPSERT,
            _MUTATIONS,
            _rows_of("upsert"),
            examples=("mutator sample upsert 100 --master master.txt > ups_1.txt",),
        ),
        Command(
            "delete",
            _DELETE,
            _MUTATIONS,
            _rows_of("delete"),
            examples=("mutator sample delete 10 --seed 2 --master master.txt > del_2.txt",),
        ),
    ),
)
