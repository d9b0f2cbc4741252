"""The decisions of a run in words, for the log."""

from collections.abc import Mapping, Sequence
from typing import Any

from mutator.errors.display import counted, without_secrets
from mutator.errors.parts import plain
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.run_plan import Plan


def survey_text(survey: Survey) -> str:
    """Return the inputs of a run in words."""
    known = survey.state
    commit = "without a manifest" if known is None else f"commit {known.commit.id}"
    parts = [f"{_files(survey.feed, 'feed file')}", f"{_files(survey.master, 'master file')}, {commit}"]
    if survey.partitioned is not None:
        parts[1] = f"a partitioned master, {commit}"
    if survey.consumed:
        parts.append(f"{counted(len(survey.consumed), 'feed file')} merged before")
    return "; ".join(parts)


def plan_text(plan: Plan) -> str:
    """Return how a run merges, and why, in words."""
    strategy, spec = plan.strategy, plan.rows.spec
    buckets = "no buckets" if strategy.buckets is None else counted(strategy.buckets, "bucket")
    tasks = f"{counted(len(plan.tasks), 'read task')}, {counted(plan.groups, 'merge task')}"
    rows = ", ".join(f"{name} {_words(spec[name])}" for name in ("format", "key", "order") if name in spec)
    return f"{strategy.engine} engine, {strategy.join} join, {buckets}, {tasks}: {plain(strategy.reason)}; rows: {rows}"


def _words(value: Any) -> str:
    """Return a value of a specification without punctuation.

    >>> _words({"ordinals": [0, 2], "types": ["bytes"]})
    'ordinals 0 2 types bytes'
    """
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_words(inner)}" for name, inner in value.items())
    return " ".join(map(_words, value)) if isinstance(value, list | tuple) else str(value)


def _files(sources: Sequence[Source], noun: str) -> str:
    size = counted(sum(source.bytes for source in sources), "byte")
    formats = sorted({source.file_format for source in sources})
    of = f" of {' and '.join(formats)}" if formats else ""
    example = f", {without_secrets(sources[0].path)}" if len(sources) == 1 else ""
    return f"{counted(len(sources), noun)}{of} ({size}{example})"
