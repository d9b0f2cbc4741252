"""``python -m bench``: run everything in one invocation and write the report."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.contenders.catalogue import CATALOGUE, Entry
from bench.contest import compete
from bench.data import ROW_BYTES
from bench.figures import Outcome, unequal
from bench.machine import describe, file_system, scratch
from bench.plot import plot
from bench.report import as_json, markdown, table, target_lines
from bench.workload import SIZES, WORK, Workload, parse_size, workloads

ROOT = Path(__file__).resolve().parent.parent
# Master, managed master, a table and its copy for each of five formats, one output, shuffle files.
COPIES = 12


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all results are equal and nobody failed, else 1."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was made is removed on this way out, too
    try:
        entries = chosen(options.only)
        rows = parse_size(options.size)
        work = [workload for name in options.work.split(",") for workload in workloads(rows, name.strip())]
    except ValueError as fault:
        _parser().error(str(fault))
    place = scratch(rows * ROW_BYTES * COPIES + (256 << 20))
    machine = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **describe(), "files on": file_system(place)}
    outcomes: list[Outcome] = []
    try:
        for workload in work:
            outcomes.append(_one(workload, entries, place, options))
            _write(options.out, outcomes, machine)  # what is measured stays, whatever comes later
    finally:
        _keep_logs(place, options.out)
        shutil.rmtree(place, ignore_errors=True)
    return conclude(outcomes, options.out)


def chosen(only: str) -> list[Entry]:
    """Return the contenders whose names begin with one of these; all where none is named."""
    if not only:
        return CATALOGUE
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if not any(entry.name.startswith(name) for entry in CATALOGUE):
            raise ValueError(f"{name}: no contender begins like this; there are: {_names()}")
    return [entry for entry in CATALOGUE if entry.name.startswith(tuple(names))]


def _one(workload: Workload, entries: list[Entry], place: Path, options: argparse.Namespace) -> Outcome:
    print(f"{workload.name} rows, {options.repeat} rounds", file=sys.stderr, flush=True)
    entries = [entry for entry in entries if workload.only is None or entry.name in workload.only]
    results = compete(entries, workload, place, repeat=options.repeat, limit=options.limit, seed=options.seed)
    outcome = Outcome(workload, tuple(results))
    print(f"\n{table(outcome)}\n", flush=True)
    return outcome


def _write(out: Path, outcomes: list[Outcome], machine: dict[str, str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.md").write_text(markdown(outcomes, machine), encoding="utf-8")
    (out / "bench.json").write_text(as_json(outcomes, machine), encoding="utf-8")


def conclude(outcomes: list[Outcome], out: Path) -> int:
    """Draw the plot, say what the figures mean, return the exit code."""
    try:
        plot(outcomes, out / "bench.png")
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
    print("\n".join(target_lines(outcomes)))
    print(f"written: {out}/bench.md, bench.json and, with matplotlib, bench.png")
    status = 0
    for outcome in outcomes:
        for content, names in unequal(outcome.results).items():
            status = 1
            print(f"UNEQUAL, {outcome.workload.name}: {content}: {', '.join(names)}", file=sys.stderr)
        for result in outcome.results:
            if result.out == "failed":
                status = 1
                print(f"FAILED, {outcome.workload.name}: {result.name}: {result.why}", file=sys.stderr)
    return status


def _keep_logs(place: Path, out: Path) -> None:
    logs = out / "logs"
    for log in place.glob("contenders/*/log"):
        logs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, logs / f"{log.parent.name}.log")


def _names() -> str:
    return ", ".join(entry.name for entry in CATALOGUE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, epilog=f"contenders: {_names()}")
    parser.add_argument(
        "--size", default="4m", help=f"rows of the master: {', '.join(SIZES)} or a number (%(default)s)"
    )
    parser.add_argument("--work", default=",".join(WORK), help="shares, numbers of mutations, scaling (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds (%(default)s)")
    parser.add_argument("--only", default="", metavar="NAME,...", help="contenders, by the beginning of their names")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a run is ended (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the data (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="where the report goes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
