"""``python -m bench``: run everything in one invocation and write the report."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from bench.contenders.catalogue import MERGES, SERVERS, Entry, everyone
from bench.contest import compete
from bench.data import ROW_BYTES
from bench.figures import Outcome, Result, unequal
from bench.machine import describe, file_system, scratch
from bench.plot import plot
from bench.report import as_json, markdown, table, target_lines, traffic_table
from bench.storage import COPIES as TRANSFER_COPIES
from bench.storage import exchange, transfer_size
from bench.traffic import Moved, Traffic
from bench.workload import SIZES, WORK, Workload, parse_size, workloads

ROOT = Path(__file__).resolve().parent.parent
# Master, managed master, a table and its copy for each of five formats, one output, shuffle files.
COPIES = 12
SCALED = "partition-scaling"  # its files are too large to be in memory all at once


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all results are equal and no contender failed, otherwise 1."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that ``finally`` removes the files
    try:
        entries = chosen(options.only)
        rows = parse_size(options.size)
        names = [name.strip() for name in options.work.split(",")]
        work = [workload for name in names if name not in SERVERS for workload in workloads(rows, name)]
    except ValueError as fault:
        _parser().error(str(fault))
    servers = [name for name in names if name in SERVERS]
    needed = [workload.rows * ROW_BYTES * copies_of(workload, entries) + workload.feed_bytes for workload in work]
    needed += [transfer_size(rows) * TRANSFER_COPIES for _ in servers]
    directory = scratch(max(needed) + (256 << 20))
    machine = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **describe(), "files on": file_system(directory)}
    outcomes: list[Outcome] = []
    traffics: list[Traffic] = []
    try:
        # Keep what was measured, even if a later workload fails.
        for server in servers:
            traffics += _transferred(server, entries, directory, rows, options)
            _write(options.out, outcomes, machine, traffics)
        for group in groups_of(work):
            for outcome in _merged(group, entries, directory, options):
                outcomes.append(outcome)
                _write(options.out, outcomes, machine, traffics)
    finally:
        _keep_logs(directory, options.out)
        shutil.rmtree(directory, ignore_errors=True)
    return conclude(outcomes, options.out, traffics)


def chosen(only: str) -> list[Entry]:
    """Return the contenders whose names begin with one of the names; all of them if no name is given."""
    if not only:
        return everyone()
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if not any(entry.name.startswith(name) for entry in everyone()):
            raise ValueError(f"{name}: no contender begins like this; the contenders are {_names()}")
    return [entry for entry in everyone() if entry.name.startswith(tuple(names))]


def copies_of(workload: Workload, entries: Sequence[Entry]) -> int:
    """Return how many copies of a workload's master must fit in memory."""
    if workload.work != SCALED:
        return COPIES
    return sum(entry.name in (workload.only or ()) for entry in entries)  # a managed master each; outputs are links


def groups_of(work: Sequence[Workload]) -> list[list[Workload]]:
    """Return successive workloads with the same master and contenders together: a contender prepares it once."""
    same = groupby(work, key=lambda workload: (workload.family, workload.form, workload.rows, workload.parts))
    return [list(group) for _, group in same]


def _merged(
    group: list[Workload], entries: list[Entry], directory: Path, options: argparse.Namespace
) -> Iterator[Outcome]:
    """Yield the outcomes of workloads with the same master; none if none of their contenders was selected."""
    work, form, only = group[0].work, group[0].form, group[0].only
    selected = [entry for entry in MERGES[form] if entry in entries and entry.name in (only or (entry.name,))]
    if not selected:
        return
    settings = {"repeat": options.repeat, "limit": options.limit, "seed": options.seed}
    with ExitStack() as stack:
        if work == SCALED:
            aside = stack.enter_context(tempfile.TemporaryDirectory(prefix="mutator-bench-"))
            settings["aside"] = Path(aside)
        for workload, results in zip(group, compete(selected, group, directory, **settings), strict=True):
            outcome = Outcome(workload, tuple(results))
            print(f"\n{table(outcome)}\n", flush=True)
            yield outcome


def _transferred(
    server: str, entries: list[Entry], directory: Path, rows: int, options: argparse.Namespace
) -> list[Traffic]:
    """Return the results of a server in a list; an empty list if none of its contenders was selected."""
    selected = [entry for entry in SERVERS[server] if entry in entries]
    if not selected:
        return []
    print(f"{server}, {options.repeat} rounds", file=sys.stderr, flush=True)
    settings = {"repeat": options.repeat, "limit": options.limit, "seed": options.seed}
    traffic = exchange(server, selected, directory, size=transfer_size(rows), **settings)
    print(f"\n{traffic_table(traffic)}\n", flush=True)
    return [traffic]


def _write(out: Path, outcomes: list[Outcome], machine: dict[str, str], traffics: list[Traffic]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.md").write_text(markdown(outcomes, machine, traffics), encoding="utf-8")
    (out / "bench.json").write_text(as_json(outcomes, machine, traffics), encoding="utf-8")


def conclude(outcomes: list[Outcome], out: Path, traffics: Sequence[Traffic] = ()) -> int:
    """Draw the plot, print the targets, and return the exit code."""
    try:
        plot(outcomes, out / "bench.png")
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
    print("\n".join(target_lines(outcomes, traffics)))
    print(f"written: {out}/bench.md, bench.json and, with matplotlib, bench.png")
    status = 0
    for outcome in outcomes:
        for content, names in unequal(outcome.results).items():
            status = 1
            print(f"UNEQUAL, {outcome.workload.name}: {content}: {', '.join(names)}", file=sys.stderr)
    for name, result in _all_results(outcomes, traffics):
        if result.out == "failed":
            status = 1
            print(f"FAILED, {name}: {result.name}: {result.why}", file=sys.stderr)
    return status


def _all_results(outcomes: Sequence[Outcome], traffics: Sequence[Traffic]) -> Iterator[tuple[str, Result | Moved]]:
    for outcome in outcomes:
        yield from ((outcome.workload.name, result) for result in outcome.results)
    for traffic in traffics:
        yield from ((traffic.server, result) for result in traffic.results)


def _keep_logs(directory: Path, out: Path) -> None:
    logs = out / "logs"
    for log in directory.glob("contenders/*/log"):
        logs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, logs / f"{log.parent.name}.log")


def _names() -> str:
    return ", ".join(dict.fromkeys(entry.name for entry in everyone()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", allow_abbrev=False, description=__doc__, epilog=f"contenders: {_names()}"
    )
    parser.add_argument(
        "--size", default="4m", help=f"rows of the master: {', '.join(SIZES)} or a number (%(default)s)"
    )
    parser.add_argument(
        "--work",
        default=",".join(WORK),
        help="shares, numbers of mutations, scaling, formats, partitions, partition-scaling, tables, table, small,"
        " dialects, patches, history, servers (%(default)s)",
    )
    parser.add_argument("--repeat", type=int, default=3, help="rounds (%(default)s)")
    parser.add_argument("--only", default="", metavar="NAME,...", help="contenders, by the beginning of their names")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a run is killed (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the data (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="directory of the report")
    return parser


if __name__ == "__main__":
    sys.exit(main())
