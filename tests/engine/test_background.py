"""Work in the background has a lower priority than its caller."""

import os
import sys
import threading

import pytest

from mutator.engine.background import in_background


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_only_the_work_gives_way() -> None:
    before = _priority()
    assert in_background(_priority) == min(before + 5, 19)
    assert _priority() == before


def test_its_result_and_its_error_are_those_of_the_function() -> None:
    assert in_background(int, "12") == 12
    with pytest.raises(ValueError, match="twelve"):
        in_background(int, "twelve")
