"""Commands in a Spark process of their own, on S3 and HDFS."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.cluster import environment
from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

# One process with one session, as a scheduler would run it; it prints each command's exit code and answer.
COMMANDS = """
import contextlib, io, json, sys
from mutator import cli
from mutator.engine.spark.session import spark_context

answers = []
with spark_context("remote"):
    for command in json.loads(sys.argv[1]):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            is_job = command[0] == "workflow"
            code = cli.job("workflow.py", command[1:]) if is_job else cli.main(command)
        answers.append((code, out.getvalue()))
print("ANSWERS" + json.dumps(answers))
"""


def run(commands):
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        env=environment() | {name: value for name, value in os.environ.items() if name.startswith("AWS_")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "ANSWERS" in done.stdout, done.stdout + done.stderr
    return json.loads(done.stdout.rpartition("ANSWERS")[2])
