"""What all tests rely on, and nothing else would show: it costs minutes, but no result."""

import pytest


@pytest.mark.xdist_group("seen")
def test_groups_of_tests_are_seen(request):
    """A group's servers are started by one worker, not by each: where the group is no part of the name, it is none."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("only a worker of pytest-xdist has groups")

    assert request.node.nodeid.endswith("@seen")


def test_names_of_tests_are_short(request):
    """They are in the environment of whatever a test starts, which is not started where one is too long."""
    long = [item.nodeid[:80] for item in request.session.items if len(item.nodeid) > 2000]

    assert long == []
