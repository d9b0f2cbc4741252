"""The console blocks of the README and the pages: commands and their expected output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time

from mutator import cli
from tests.support.cluster import ROOT

# Values that differ from run to run; files beside the data are compressed with the time of the run in them.
VARIABLE = (
    (r"\d{8}T\d{6}Z-[0-9a-f]{8}", "RUN"),
    (r"\d+\.\d s\b", "N s"),
    (r"\d{4}-\d\d-\d\dT[\d:]+", "TIME"),
    (r"[\d,]+ bytes (unread|checked)", r"N bytes \1"),
)


def console_blocks(text):
    return re.findall(r"```console\n(.*?)```", text, re.DOTALL)


def steps(block):
    """Split a block into pairs of command and expected output."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert parts[0] == ""
    return list(zip(parts[1::2], parts[2::2], strict=True))


def settle(directory):
    """Make the files in incr/ old enough to be claimed, so that no test waits for them."""
    for path in directory.rglob("incr/*"):
        os.utime(path, (time.time() - 3600,) * 2)


def same(text):
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    return text


def compare(block, directory, monkeypatch, capfd, shown=None):
    """Run the commands of a block in a directory, which pages call /data; compare what they print, and return them.

    shown: takes away what differs from run to run; without it, ``same`` does.
    """
    if not (directory / "sample_data").exists():
        (directory / "sample_data").symlink_to(ROOT / "sample_data")
    (directory / "build").mkdir(exist_ok=True)
    monkeypatch.chdir(directory)
    shown, found = shown or same, steps(block)
    for command, expected in found:
        words = shlex.split(command)
        if words[0] == "mutator":
            capfd.readouterr()
            settle(directory)

            assert cli.main(words[1:]) == 0

            printed = capfd.readouterr().out
        else:
            printed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout

        assert shown(printed.replace(f"{directory}/", "/data/")) == shown(expected), command
    return [command for command, _ in found]
