"""Measured values in the text format of Prometheus, by its client library (extra ``metrics``).

A file has the values of one dataset. Each has the label ``dataset``, so that the files of many datasets may be in the
directory that a node exporter reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mutator.errors import error
from mutator.errors.exceptions import SET_ASIDE_CODE
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES, RARE_OUTCOMES

_SIDES = (("feed", FEED_OUTCOMES, RARE_OUTCOMES), ("master", MASTER_OUTCOMES, ("truncated",)))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is known of a dataset after a command; times are seconds since 1970, None is not known.

    counts, seconds and steps are those of the last merge.
    """

    dataset: str  # path of the master, the base or the table
    ended: float  # when the command ended
    exit_code: int | None  # None: the command only looked
    counts: Mapping[str, int] | None = None
    output_bytes: int | None = None  # that the merge wrote
    seconds: float | None = None
    steps: Mapping[str, float] = field(default_factory=dict)
    version: int | None = None  # the newest
    committed: float | None = None  # its time
    lag: float | None = None  # seconds from the arrival of its oldest feed file to its commit
    ready: int | None = None  # feed files that the next run claims
    waiting: int | None = None  # feed files that have to wait
    set_aside: int | None = None  # feed files that were set aside, and not delivered again
    problems: int | None = None  # that need a hand


def check_installed(what: str) -> None:
    """Raise ConfigError if the library of the extra ``metrics`` is missing. what: needs it."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise error("extra", what=what, package="prometheus_client", extra="metrics") from None


def metrics_text(found: Measured) -> str:
    """Return values in the text format."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()

    def gauge(name: str, meaning: str, value: float | None, **labels: str) -> None:
        if value is not None:
            made = gauges.get(name) or Gauge(f"mutator_{name}", meaning, ["dataset", *labels], registry=registry)
            gauges[name] = made
            made.labels(dataset=found.dataset, **labels).set(value)

    gauges: dict[str, Any] = {}
    if found.exit_code is not None:
        gauge("success", "1: the last run succeeded; 0: it failed", float(found.exit_code in (0, SET_ASIDE_CODE)))
        gauge("exit_code", "Exit code of the last run", found.exit_code)
        gauge("last_run_timestamp_seconds", "When the last run ended", found.ended)
    for side, outcomes, rare in _SIDES if found.counts is not None else ():
        counts = {name: (found.counts or {}).get(f"{side} {name}", 0) for name in (*outcomes, *rare)}
        for outcome in (*outcomes, *(name for name in rare if counts[name])):
            gauge("rows", "Rows of the last merge by outcome", counts[outcome], side=side, outcome=outcome)
    if found.counts is not None:
        gauge("output_rows", "Rows of the result of the last merge", found.counts.get("output rows", 0))
        gauge("tombstones", "Remembered deletes after the last merge", found.counts.get("tombstones out", 0))
        gauge("tied_keys", "Keys of the last merge whose newest mutations differ", found.counts.get("tied", 0))
    gauge("output_bytes", "Bytes that the last merge wrote", found.output_bytes)
    gauge("duration_seconds", "Duration of the last merge", found.seconds)
    for step, seconds in found.steps.items():
        gauge("step_duration_seconds", "Duration of each step of the last merge", seconds, step=step)
    gauge("version", "Number of the newest version", found.version)
    gauge("version_timestamp_seconds", "When the newest version was committed", found.committed)
    if found.committed is not None:
        age = max(found.ended - found.committed, 0.0)
        gauge("version_age_seconds", "Age of the newest version when this was written", age)
    gauge("lag_seconds", "From the arrival of the oldest feed file of the newest version to its commit", found.lag)
    gauge("ready_files", "Feed files that the next run claims", found.ready)
    gauge("waiting_files", "Feed files that have to wait", found.waiting)
    gauge("set_aside_files", "Feed files that were set aside, and not delivered again", found.set_aside)
    gauge("problems", "Problems of the base that need a hand", found.problems)
    return generate_latest(registry).decode()
