"""The garbage collector is off while any pause lasts, and no longer."""

import gc
import sys
import threading

import pytest

from mutator.dataset.gc_pause import paused


@pytest.fixture(autouse=True)
def enabled():
    gc.enable()
    yield
    gc.enable()


def test_it_rests_until_the_last_pause_is_over():
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_had_none_has_none_afterwards():
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()


def test_an_exception_ends_a_pause():
    with pytest.raises(ValueError, match="x"), paused():
        raise ValueError("x")
    assert gc.isenabled()


def test_threads_that_pause_leave_it_on():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [pause() for _ in range(2_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert gc.isenabled()


def pause():
    with paused():
        pass
