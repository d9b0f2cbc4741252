"""A process ends with the exit code of its command, although a thread aborts it while the interpreter ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.cluster import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
CODE = """
import atexit, os, sys
class Thread:
    def __del__(self, abort=os.abort):
        abort()
sys.kept = Thread()
from mutator import cli
sys.argv = ["mutator", *sys.argv[1:]]
{early}
cli.{call}
"""


@pytest.mark.parametrize(
    ("call", "words", "code"),
    [
        ("entry()", ["--version"], 0),
        ("entry()", ["run", "--config", "no.properties", "--master", "m", "--feed", "f", "--output", "o"], 2),
        ("job_entry('table.py')", ["log", "no"], 2),
    ],
)
def test_the_exit_code_is_that_of_the_command(call, words, code, tmp_path):
    program = CODE.format(call=call, early="")
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, env=ENVIRONMENT, capture_output=True)

    assert done.returncode == code, done.stderr.decode()


def test_the_records_of_a_log_are_written(tmp_path):
    early = "import logging.handlers as h, logging; to = logging.FileHandler('log.txt', delay=True)"
    early += "; logging.getLogger().addHandler(h.MemoryHandler(100, target=to)); logging.warning('kept')"
    code = CODE.format(call="entry()", early=early)
    words = [sys.executable, "-c", code, "--version"]
    subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=True)

    assert (tmp_path / "log.txt").read_text() == "kept\n"


def test_later_handlers_run_and_output_is_flushed(tmp_path):
    later = "import mutator.cli.program as program; program.main = lambda words: len([atexit.register(print, 'later')])"
    code = CODE.format(call="entry()", early=later)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, capture_output=True)

    assert done.returncode == 1
    assert done.stdout == b"later\n"
