"""Explain a record from Python: what ``mutator explain`` does, with an object as its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mutator.cli.explain_commands import Question, Recorded, explained
from mutator.config import Config
from mutator.config.audience import PYTHON
from mutator.config.feed_settings import states_deletes
from mutator.errors.exceptions import said_to
from mutator.frames.dataset import Dataset
from mutator.pipeline import arguments
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.tables_in_memory import Names

if TYPE_CHECKING:
    from mutator.pipeline.python_merge import Field, PathLike

CALL = "mutator.explain()"
_PLACE = "the path of a base, a master or a table, or a Dataset"
_FEED = "the path of a feed file or a directory, a pattern, or a list of these"


def explain(
    place: PathLike | Dataset,
    values: object,
    /,
    *,
    feed: PathLike | Sequence[PathLike] | None = None,
    before: PathLike | Dataset | None = None,
    valid_at: object = None,
    key: Field | Sequence[Field] | None = None,
    order_by: Field | Sequence[Field] | None = None,
    order_type: str | None = None,
    op: Field | None = None,
    delete_codes: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | int | None = None,
    config: Config | Mapping[str, Any] | PathLike | None = None,
    **settings: object,
) -> Explanation:
    """Explain a record: return every mutation of its key that can still be found, and the rule that decided.

    place: the base of a workflow, a master, or a table. values: the value of the key, or a list or tuple of the values
    of its fields. feed: of a master or table, where merged feed files still are. before: of a master, an earlier one,
    from which its runs are followed. valid_at: of a table with history, a time at which something held. The other
    arguments are those of ``merge``; places that mutator has written know their settings. Nothing is written, and no
    lock is taken.

    Raises the errors of the catalogue (``mutator.MutatorError``).

    >>> print(explain("/data/product", "7G3K"))                                              # doctest: +SKIP
    >>> explain("/data/product", "7G3K").is_known                                            # doctest: +SKIP
    True
    """
    named = {
        "key": key,
        "order_by": order_by,
        "order_type": order_type,
        "op": op,
        "delete_codes": delete_codes,
        "delimiter": delimiter,
        "header": header,
    }
    warnings: list[str] = []
    parts = [arguments.input_of(name, one) for name, one in (("place", place), ("before", before)) if _is_dataset(one)]
    with arguments.named(CALL), said_to(replace(PYTHON, paths=Names(None, parts)).writers):
        given = arguments.settings_of_call(config, {**named, **settings})

        def config_of(recorded: Recorded, source: str) -> Config:
            found = arguments.config_of_place(given, recorded(given.values), source)
            warnings.extend(found.wording.warnings)
            return found

        path = _path_of("place", place)
        if path is None:
            raise arguments.wrong("place", place, _PLACE)
        states = config is not None or states_deletes(given.values)
        question = Question(path, values, config_of, _feed_of(feed), _path_of("before", before), states, valid_at)
        return replace(explained(question), warnings=tuple(dict.fromkeys(warnings)))


def _is_dataset(value: object) -> bool:
    return isinstance(value, Dataset)


def _path_of(argument: str, value: object) -> str | None:
    return value.path if isinstance(value, Dataset) else arguments.path_of(argument, value, _PLACE)


def _feed_of(value: PathLike | Sequence[PathLike] | None) -> list[str]:
    """Return the paths of feed files. Raises ConfigError for anything else."""
    parts = value if isinstance(value, list | tuple) else [value] if value is not None else []
    paths = [arguments.path_of("feed", one, _FEED) for one in parts]
    if None in paths:
        raise arguments.wrong("feed", value, _FEED)
    return [path for path in paths if path is not None]
