"""The console blocks of the README and the pages: commands and their expected output."""

from __future__ import annotations

import os
import re
import time

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
