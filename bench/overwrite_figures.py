"""Figures of insert overwrites: the targets of one partition, and of some and all of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figures import Outcome, Target, faster, seconds_text

__all__ = ["overwrite_targets"]

SCOPES = ("partition", "table")
# The most seconds of one partition: some, and a multiple of those that pyarrow needs to write its rows.
START, TIMES = 0.2, 1.3
PYARROW, WRITING = "pyarrow write", "pyarrow writes the rows"
CREATE, MOST_OF_CREATE = "mutator create", 1.3
PEERS, FASTER = ("delta overwrite", "hudi overwrite"), 5
REACHES = {"overwrite": "partitions", "overwrite all": "everything"}


def overwrite_targets(outcomes: Sequence[Outcome]) -> Iterator[Target]:
    """Yield the targets of insert overwrites with the measured values."""
    by_work = {outcome.workload.work: outcome for outcome in outcomes}
    one = by_work.get("overwrite one")
    for way in ("mutator overwrite", "mutator run"):
        for scope in SCOPES:
            yield _one_partition(one, f"{way}, {scope} scope")
    for scope in SCOPES:
        yield _of_create(by_work.get("overwrite all"), f"mutator overwrite, {scope} scope")
    for work, reach in REACHES.items():
        for scope in SCOPES:
            ours = f"mutator overwrite, {scope} scope"
            for peer in PEERS:
                text = f"overwrite of {reach}: {ours}, {FASTER} times as fast as {peer}"
                yield faster(by_work.get(work), text, ours, (peer,), FASTER)


def _one_partition(outcome: Outcome | None, name: str) -> Target:
    text = f"overwrite of 1 partition: {name}, at most {START} s and {TIMES} times the writing by pyarrow"
    seconds = outcome.seconds(name) if outcome else None
    results = outcome.results if outcome else ()
    writing = next((result.steps.get(WRITING) for result in results if result.name == PYARROW), None)
    if seconds is None or writing is None:
        return Target(text, "not measured", None)
    most = START + TIMES * writing
    return Target(text, f"{seconds_text(seconds)} s, of {seconds_text(most)} s", seconds <= most)


def _of_create(outcome: Outcome | None, name: str) -> Target:
    text = f"overwrite of everything: {name}, at most {MOST_OF_CREATE} times the creation of a table"
    seconds, base = (outcome.seconds(one) if outcome else None for one in (name, CREATE))
    if seconds is None or base is None:
        return Target(text, "not measured", None)
    measured = f"{seconds / base:.2f} times ({seconds_text(seconds)} s, {seconds_text(base)} s)"
    return Target(text, measured, seconds <= MOST_OF_CREATE * base)
