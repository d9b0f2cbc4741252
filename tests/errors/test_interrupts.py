"""Signals: raised at once where that is safe, otherwise at the next safe point, and never lost."""

import contextlib
import signal
import threading

import pytest

from mutator.errors.interrupts import Interrupted, catch_signals, check_signals, deferred_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_interrupts(number):
    with pytest.raises(Interrupted) as caught, catch_signals():
        signal.raise_signal(number)

    assert caught.value.number == number
    check_signals()  # forgotten at the end of its block


def test_swallowed_exception_is_raised_again_before_it_matters():
    with catch_signals():
        with contextlib.suppress(KeyboardInterrupt):  # as in a finalizer
            signal.raise_signal(signal.SIGINT)

        with pytest.raises(Interrupted):
            check_signals()


def test_deferred_signal_is_raised_at_the_end():
    reached = []

    def work():
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")
        reached.append("too far")

    with pytest.raises(Interrupted), catch_signals():
        work()
    with catch_signals():
        check_signals()  # it was raised once, and is not raised again

    assert reached == ["the end"]


def test_handlers_are_restored():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with catch_signals(), deferred_signals():
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_leave_signals_alone():
    failures = []

    def work():
        try:
            with catch_signals(), deferred_signals():
                pass
        except ValueError as fault:  # the message of signal.signal in a thread
            failures.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert failures == []


def test_a_thread_does_not_get_the_main_threads_signal():
    raised = []

    def work():
        try:
            with deferred_signals():
                pass
        except Interrupted:
            raised.append("in the thread")

    with catch_signals():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

        with pytest.raises(Interrupted):
            check_signals()

    assert raised == []
