"""Failpoints: the values that the environment variable accepts."""

import pytest

from mutator.errors import ConfigError, failpoints


@pytest.mark.parametrize("wanted", ["publish.done:kill", "publish.done:-1", "elsewhere:½"])
def test_malformed_value_is_a_configuration_error(monkeypatch, wanted):
    monkeypatch.setenv(failpoints.VARIABLE, wanted)
    monkeypatch.setattr(failpoints, "PASSED", [])

    with pytest.raises(ConfigError, match=f"^MUTATOR_FAILPOINT={wanted}: .* is not an action; write NAME, NAME:raise"):
        failpoints.failpoint("publish.done")


def test_value_for_another_failpoint_does_nothing(monkeypatch):
    monkeypatch.setenv(failpoints.VARIABLE, "elsewhere:2")
    monkeypatch.setattr(failpoints, "PASSED", [])

    failpoints.failpoint("publish.done")

    assert failpoints.PASSED == ["publish.done"]
