"""The garbage collector is off while any pause lasts, and no longer."""

import gc
import sys
import threading

import pytest

from mutator.dataset.gc_pause import collect_rarely, paused


@pytest.fixture(autouse=True)
def enabled():
    gc.enable()
    yield
    gc.enable()


def test_collector_is_off_until_the_last_pause_ends():
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collector_that_was_off_stays_off():
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()


def test_an_exception_ends_a_pause():
    with pytest.raises(ValueError, match="x"), paused():
        raise ValueError("x")
    assert gc.isenabled()


def test_collector_is_on_after_pauses_in_threads():
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


def test_collector_runs_less_often_in_a_process_of_its_own():
    before = gc.get_threshold()
    try:
        gc.set_threshold(700)
        collect_rarely()
        assert gc.isenabled()
        assert gc.get_threshold()[0] > 7000
    finally:
        gc.set_threshold(*before)
