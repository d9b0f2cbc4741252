"""Processes that die while they change a model storage, and the processes that follow."""

import itertools
from contextlib import contextmanager, suppress

import pytest

from mutator.dataset.commit import process as owner
from mutator.errors import MutatorError
from tests.support.model_storage import Killed, ModelStorage, mounted


@pytest.fixture(autouse=True)
def process(monkeypatch):
    """Return a function that turns this process into another one, so that the dead process's lock is free."""
    life = itertools.count()
    now = [str(next(life))]
    monkeypatch.setattr(owner, "_born", lambda _: now[0])

    def die():
        now[0] = str(next(life))

    return die


def copy_of(storage):
    copy = ModelStorage(storage.storage_type)
    copy.tree, copy.times, copy.clock = dict(storage.tree), dict(storage.times), storage.clock
    copy.begun = set(storage.begun)
    return copy


@contextmanager
def dying(storage, process):
    """End the current process, killed or with an error, and continue as another one."""
    with suppress(Killed, MutatorError):
        yield
    process()
    storage.dead, storage.fault = False, lambda number, name: None


def calls_of(storage, act):
    """Return how many storage calls an action makes."""
    copy = copy_of(storage)
    with mounted(copy) as path:
        act(path)
    return copy.calls


def fault_at(number, what="kill", for_good=False):
    """Return the faults of calls: of one, or of all from it on."""
    return lambda n, _: what if n == number or (for_good and n > number) else None


def with_faults(start, act, process, faults):
    """Return a copy of a storage after an action that met faults, and the end of its process."""
    storage = copy_of(start)
    storage.fault = faults
    with mounted(storage) as path, dying(storage, process):
        act(path)
    return storage
