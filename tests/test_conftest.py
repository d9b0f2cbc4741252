"""Assumptions of the test configuration that no other test checks: breaking them costs minutes, but no result."""

import os
import subprocess
import sys
from itertools import combinations, product
from types import SimpleNamespace

import pytest

from tests.support.patience import wait_until
from tests.support.processor_time import seconds_of
from tests.support.tiers import balanced, pairwise


@pytest.mark.xdist_group("seen")
def test_xdist_sees_the_groups_of_tests(request):
    """One worker, not each of them, starts a group's servers: pytest-xdist groups tests only by a suffix of the node
    ID.
    """
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("only a worker of pytest-xdist has groups")

    assert request.node.nodeid.endswith("@seen")


def test_names_of_tests_are_short(request):
    """A test's name is in the environment of every process that it starts; a longer name would stop the start."""
    long = [item.nodeid[:80] for item in request.session.items if len(item.nodeid) > 2000]

    assert long == []


def test_a_sample_of_cases_has_each_value_of_each_parameter():
    axes = {"join": "abcd", "point": range(17), "size": ["small", "large"]}
    rows = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    cases = [SimpleNamespace(callspec=SimpleNamespace(params=row)) for row in rows]

    sample = [cases[0], *balanced(cases[1:], cases[:1], 16)]

    for name, values in axes.items():
        counts = [[case.callspec.params[name] for case in sample].count(value) for value in values]
        assert sum(counts) == 17
        assert max(counts) - min(counts) <= 1
    assert len(balanced(cases[:5], [], 9)) == 5


def test_a_pairwise_sample_has_each_pair_of_values():
    axes = {"join": "abcd", "point": range(17), "size": ["small", "large"]}
    rows = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    cases = [SimpleNamespace(callspec=SimpleNamespace(params=row)) for row in rows]

    sample = [cases[0], *pairwise(cases[1:], cases[:1])]

    for one, other in combinations(axes, 2):
        pairs = {(case.callspec.params[one], case.callspec.params[other]) for case in sample}
        assert len(pairs) == len(axes[one]) * len(axes[other]), (one, other)
    assert len(sample) < 80  # of 136; at least 68 are needed


def test_a_test_without_parameters_is_its_own_sample():
    assert len(pairwise([SimpleNamespace()], [])) == 1
    assert pairwise([SimpleNamespace()], [SimpleNamespace()]) == []


def test_the_time_of_a_running_process_is_measured():
    before = seconds_of(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            wait_until(lambda: seconds_of(os.getpid()) - before > 0.2)
            assert seconds_of(child.pid) > 0.1
        finally:
            child.kill()
    assert seconds_of(os.getpid()) - before > 0.2  # it ended
