"""Failpoints: the values that the environment variable accepts."""

import re

import pytest

from mutator.errors import ConfigError, failpoints
from tests.support.cluster import ROOT


@pytest.mark.parametrize("wanted", ["publish.done:kill", "publish.done:-1", "publish.done:½"])
def test_malformed_value_is_a_configuration_error(monkeypatch, wanted):
    monkeypatch.setenv(failpoints.VARIABLE, wanted)
    monkeypatch.setattr(failpoints, "PASSED", [])

    with pytest.raises(ConfigError, match=f"^MUTATOR_FAILPOINT={wanted}: .* is not an action; write NAME, NAME:raise"):
        failpoints.failpoint("publish.done")


def test_value_for_another_failpoint_does_nothing(monkeypatch):
    monkeypatch.setenv(failpoints.VARIABLE, "claim.done:2")
    monkeypatch.setattr(failpoints, "PASSED", [])

    failpoints.failpoint("publish.done")

    assert failpoints.PASSED == ["publish.done"]


def test_unknown_name_is_a_configuration_error(monkeypatch):
    """A misspelled name would let a test of faults pass without a fault."""
    monkeypatch.setenv(failpoints.VARIABLE, "publish.don")
    monkeypatch.setattr(failpoints, "PASSED", [])

    with pytest.raises(ConfigError, match=r"there is no failpoint 'publish\.don'; did you mean publish\.done\?"):
        failpoints.failpoint("claim.done")


def test_every_name_in_the_package_is_known():
    sources = (path.read_text() for path in (ROOT / "mutator").rglob("*.py"))
    used = {name for source in sources for name in re.findall(r'\bfailpoint\(\s*"([\w.]+)"', source)}
    assert used == failpoints.NAMES
