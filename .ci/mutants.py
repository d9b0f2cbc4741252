"""Plant each fault of tests/mutants/faults.toml in a copy of the checkout, run the tests that reach it, and print which
faults the tests find.

    .venv/bin/python .ci/mutants.py [--search] [--reach] [--seconds N] [--jobs N] [NAME...]

First, each fault is tried with the test that found it the last time: its member ``found`` in faults.toml. With --search
this step is left out. A fault that this test does not find is tried with all tests that reach its place, until one
fails or until --seconds have passed: first those of the fault's room, one case of each test function before the other
cases, and cheapest first. Which tests these are is recorded in build/mutants by a run of all tests with a probe at the
place of each fault. That run is repeated with --reach, or where the record is missing. NAME... are the faults to try,
all by default.
"""

import argparse
import ast
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "mutants"
REACHED = BUILD / "reached.json"  # {"tests": {fault: [test]}, "seconds": {test: processor time}}
EVERY = "not soak"  # the tests of `make test-all`
PROBE = '''
"""Record that a test reached the place of a fault: in the directory of its worker, or in one of all workers."""
import os

_ALL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "reached")
_DIRECTORY = os.environ.get("MUTANTS_REACHED", _ALL)

def reached(name):
    path = os.path.join(_DIRECTORY, name)
    if not os.path.exists(path) or _DIRECTORY == _ALL:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        os.utime(path)
'''


def main() -> int:
    """Print a row for each fault; return 1 if one was not found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--search", action="store_true", help="try all tests that reach a fault")
    parser.add_argument("--reach", action="store_true", help="record again which tests reach the faults")
    parser.add_argument("--seconds", type=float, default=600, help="most seconds for one fault")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time")
    options = parser.parse_args()
    faults = tomllib.loads((ROOT / "tests/mutants/faults.toml").read_text(encoding="utf-8"))["fault"]
    wanted = [fault for fault in faults if not options.names or fault["name"] in options.names]
    BUILD.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        known = [fault for fault in wanted if "found" in fault and not options.search]
        tried = pool.map(lambda fault: tried_with(fault, [fault["found"]], "1", options.seconds), known)
        rows = [row for row in tried if row["found"]]
        if left := [fault for fault in wanted if fault["name"] not in {row["name"] for row in rows}]:
            if options.reach or not REACHED.exists():
                record_reach(faults)
            reach = json.loads(REACHED.read_text())
            rows += pool.map(lambda fault: searched(fault, reach, options.seconds), left)
    rows.sort(key=lambda row: row["found"] is not None)
    table = "\n".join(["fault | tests | result", "---|---|---", *map(line, rows)])
    (BUILD / "table.md").write_text(table + "\n")
    print(table)
    missed = sum(row["found"] is None for row in rows)
    print(f"{len(rows)} faults, {len(rows) - missed} found")
    return int(missed > 0)


def line(row: dict) -> str:
    """Return a row of the table."""
    return f"{row['name']} | {row['tests']} | {row['found'] or 'NOT FOUND' + row['why']}"


def copied(directory: Path) -> None:
    """Copy the files of the checkout, and link what the tests need from build/."""
    shutil.rmtree(directory, ignore_errors=True)
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        source, target = ROOT / name, directory / name
        if name and (source.is_symlink() or source.exists()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    (directory / "build").mkdir()
    for name in ("hadoop", "browser", "cache"):
        if (ROOT / "build" / name).exists():
            (directory / "build" / name).symlink_to(ROOT / "build" / name)
    shutil.copytree(ROOT / ".git", directory / ".git", symlinks=True)


def with_fault(fault: dict, text: str) -> str:
    """Return the text of a module with a fault. The old lines must occur exactly once."""
    if text.count(fault["old"]) != 1 or fault["old"] == fault["new"]:
        raise SystemExit(f"{fault['name']}: the old lines occur {text.count(fault['old'])} times in {fault['file']}")
    return text.replace(fault["old"], fault["new"])


def probe_of(fault: dict, original: str) -> tuple[int, str]:
    """Return the line number at which the statement begins that a fault changes, and a probe to put before it."""
    old, new = fault["old"].splitlines(), fault["new"].splitlines()
    same = next((number for number, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    changed = original[: original.index(fault["old"])].count("\n") + 1 + same
    lines = original.splitlines()
    before = max(
        node.lineno
        for node in ast.walk(ast.parse(original))
        if isinstance(node, ast.stmt)
        and node.lineno <= changed <= (node.end_lineno or 0)
        and not re.match(r"\s*(elif|else|except|finally|case)\b", lines[node.lineno - 1])
        and not lines[node.lineno - 1][: node.col_offset].strip()
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    )
    anchor = lines[before - 1]
    indent = anchor[: len(anchor) - len(anchor.lstrip())]
    return before, f'{indent}__import__("mutator._reached")._reached.reached("{fault["name"]}")'


def record_reach(faults: list[dict]) -> None:
    """Run all tests once, with a probe at each fault, and write which test reaches which."""
    directory = BUILD / "probes"
    copied(directory)
    probes: dict[str, list[tuple[int, str]]] = {}
    for fault in faults:
        original = (ROOT / fault["file"]).read_text(encoding="utf-8")
        compile(with_fault(fault, original), fault["file"], "exec")
        probes.setdefault(fault["file"], []).append(probe_of(fault, original))
    for name, inserted in probes.items():
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        for before, probe in sorted(inserted, reverse=True):
            lines.insert(before - 1, probe)
        text = "\n".join(lines) + "\n"
        compile(text, name, "exec")
        (directory / name).write_text(text)
    (directory / "mutator/_reached.py").write_text(PROBE)
    (directory / "build/reached").mkdir()
    words = ["-n", "3", "--dist", "loadgroup", "-p", "tests.mutants.reached", "-m", EVERY, "-q"]
    run_tests(directory, words, BUILD / "probes.log", MUTANTS_RESULT=str(REACHED), MUTATOR_EFFORT="rest")


def run_tests(directory: Path, words: list[str], log: Path, seconds: float | None = None, **more: str) -> int | None:
    """Run pytest in a copy; return its exit code, or None if it took too long."""
    # In CI pytest abridges no message.
    own = {"PYTHONPATH": str(directory), "SPARK_LOCAL_IP": "127.0.0.1", "CI": "true"}
    environment = {**os.environ, **own, **more}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "pytest", *words],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def searched(fault: dict, reach: dict, seconds: float) -> dict:
    """Return the row of a fault that is tried with all tests that reach it."""
    name = fault["name"]
    tests = reach["tests"].get(name, [])
    if not tests:
        return {"name": name, "tests": "0", "found": None, "why": ": no test reaches it"}
    room = f"tests/{Path(fault['file']).parts[1]}/"
    chosen = {test: [not test.startswith(room), reach["seconds"].get(test, 1)] for test in tests}
    choice = BUILD / f"{name}.json"
    choice.write_text(json.dumps(chosen))
    words = ["-p", "tests.mutants.reached", *sorted({test.partition("::")[0] for test in tests})]
    return tried_with(fault, words, str(len(tests)), seconds, MUTANTS_CHOSEN=str(choice))


def tried_with(fault: dict, words: list[str], tests: str, seconds: float, **more: str) -> dict:
    """Return the row of a fault: the test that finds it, or why none did. words: the tests, for pytest."""
    row = {"name": fault["name"], "tests": tests, "found": None, "why": ""}
    directory = BUILD / fault["name"]
    copied(directory)
    target = directory / fault["file"]
    target.write_text(with_fault(fault, target.read_text(encoding="utf-8")))
    words = ["-x", "-q", "-p", "no:cacheprovider", "-m", EVERY, f"--basetemp={directory}.tmp", *words]
    log, began = BUILD / f"{fault['name']}.log", time.monotonic()
    code = run_tests(directory, words, log, seconds, MUTATOR_EFFORT="rest", **more)
    failed = re.findall(r"^(?:FAILED|ERROR) (.*)", log.read_text(errors="replace"), re.MULTILINE)
    took = f"{time.monotonic() - began:.0f} s"
    for path in (directory, Path(f"{directory}.tmp")):
        shutil.rmtree(path, ignore_errors=True)
    if code is None:
        row["why"] = f" within {took}"
    elif failed:
        row["found"] = f"{failed[0][:150]} ({took})"
    else:
        row["why"] = f", {took}" + (f": pytest ended with {code}" if code else "")
    print(line(row), file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    raise SystemExit(main())
