"""Assumptions of the test configuration that no other test checks: breaking them costs minutes, but no result."""

import pytest


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
