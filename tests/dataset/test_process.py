"""Other processes find out whether the owner of a lock still runs."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from mutator.dataset.commit import process
from mutator.dataset.commit.process import Owner
from tests.support.patience import wait_until


def owner_of(number):
    return replace(Owner.this_process("run", 60), process=number, born=process._born(number))


def test_process_ends_before_its_parent_asks_for_the_exit_code():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = owner_of(child.pid)
    assert not owner.has_ended()

    child.kill()
    stat = Path(f"/proc/{child.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
    assert owner.has_ended()

    child.communicate()
    assert owner.has_ended()
