"""The command ``mutator demo``.

mutator demo                    copy the sample data to mutator-demo/, merge them there, and show three records
mutator demo DIR                the same in another new directory
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mutator.cli import options
from mutator.cli.command import Command, CommandReport, option
from mutator.errors import error
from mutator.errors.display import text_of

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
        command = f"mutator run --runner local --config {config} --master {master} --feed {feed} --output {output}"
        yield CommandReport(f"copied the sample data to {directory}/sample_data\n\n$ {command}")
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
        yield CommandReport(f"{report.text()}\n\n{_text(records)}", report.warnings)
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
