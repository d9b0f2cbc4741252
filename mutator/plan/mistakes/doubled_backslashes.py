"""Warn of CSV in which each backslash within quotes is doubled: what wrote it escapes quotes with a backslash.

Spark does, by default. Its ``\"`` is a reject where quotes are doubled, but its ``\\`` would stay two backslashes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from mutator.config import Config
from mutator.errors.display import quoted
from mutator.errors.parts import option
from mutator.plan.mistakes.samples import Sample
from mutator.rules.file_names import is_data_file

_IN_QUOTES = re.compile(rb'"(?:[^"]|"")*"')
_BACKSLASHES = re.compile(rb"\\+")


def backslash_warnings(config: Config, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield a warning on the first file with doubled backslashes, unless ``csv.escape`` says what they mean."""
    if "csv.escape" in config.given:
        return
    for sample in samples:
        if sample.source.file_format != "csv" or sample.source.part is not None or is_data_file(sample.source.name):
            continue  # runs write single ones
        fields = [field for line in sample.stored for field in _IN_QUOTES.findall(line)]
        if has_doubled_backslashes(fields):
            example = next(field for field in fields if b"\\" in field)
            yield (
                f"each backslash within quotes in {sample.source.name} is doubled, in {quoted(example, 60)} for "
                "example, as programs write it that put a backslash before quotes, such as Spark: use "
                f"{option('csv.escape', chr(92))}; or, if two are meant, {option('csv.escape', chr(34))}"
            )
            return


def has_doubled_backslashes(fields: Iterable[bytes]) -> bool:
    r"""Return whether fields in quotes have backslashes, an even number of them wherever there are any.

    >>> has_doubled_backslashes([rb'"a\\b, c"', rb"\d"]), has_doubled_backslashes([rb'"\\server\share, c"'])
    (True, False)
    """
    runs = [run for field in fields if field[:1] == b'"' for run in _BACKSLASHES.findall(field)]
    return bool(runs) and not any(len(run) % 2 for run in runs)
