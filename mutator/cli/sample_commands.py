"""The commands ``mutator sample …``: rows of sample data.

mutator sample new ROWS                         rows with new IDs
mutator sample upsert ROWS --master FILE        updates of master rows, and inserts
mutator sample delete ROWS --master FILE        deletes of master rows
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

from mutator.cli.command import Command, CommandRows, Group, option
from mutator.errors import error


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
