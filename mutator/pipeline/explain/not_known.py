"""What cannot be said of a key any more, and since when."""

from collections import Counter
from collections.abc import Sequence

from mutator.dataset.manifest import Manifest
from mutator.errors.display import counted
from mutator.pipeline.explain.chain import ChainStep
from mutator.rules.file_names import first_few


def versions_note(steps: Sequence[ChainStep]) -> list[str]:
    """Return a line for each row of versions some of whose feed files are gone for one reason."""
    found: list[tuple[ChainStep, ChainStep, int, str]] = []  # first and last version, files, reason
    before = None
    for step in steps:
        reasons = Counter((*step.feed.gone.values(), *(why for _, why in step.feed.rows.unread)))
        for why, count in reasons.items():
            if found and found[-1][3] == why and found[-1][1] in (step, before):
                found[-1] = found[-1][0], step, found[-1][2] + count, why
            else:
                found.append((step, step, count, why))
        before = step
    return [_line(*one) for one in found]


def _line(first: ChainStep, last: ChainStep, files: int, why: str) -> str:
    if first is last:
        what = _named(first)
    else:
        what = f"{_named(first)} to {_named(last)}"
    return f"mutations in {counted(files, 'feed file')} of {what}: {why}"


def _named(step: ChainStep) -> str:
    time = step.feed.committed[:19]
    return f"the run of {time}" if step.feed.number is None else f"version {step.feed.number} ({time})"


def horizon_note(known: Manifest | None) -> list[str]:
    """Return a line if tombstones of a dataset have expired: a key without a record may have been deleted."""
    if known is None or known.commit.horizon is None:
        return []
    highest = known.commit.horizon or "the lowest"
    return [f"deletes with order values up to {highest}: their tombstones may have expired (tombstone.retention)"]


def settings_note(versions: Sequence[int]) -> list[str]:
    """Return a line if the settings of versions whose feed files were read are not known.

    >>> settings_note([3])
    ['by which settings the feed files of version 3 were read: the present ones are used']
    """
    if not versions:
        return []
    numbers = first_few([f"{number:,}" for number in versions])
    which = f"version{'' if len(versions) == 1 else 's'} {numbers}"
    return [f"by which settings the feed files of {which} were read: the present ones are used"]
