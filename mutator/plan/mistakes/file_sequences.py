"""Stop where order comes from file names, and a name has no sequence, or names contradict their last number."""

from functools import partial

from mutator.config import Config
from mutator.errors import error
from mutator.errors.exceptions import check_each
from mutator.errors.parts import option, setting
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.rules.file_sequences import contradiction

_MERGED = 5  # names of merged files that new ones are compared with, the last ones: each run would compare them all


def check_sequences(config: Config, survey: Survey) -> None:
    """Raise DataError for names of feed files without a sequence, and for names that contradict each other.

    Names of files that were merged before count, too.
    """
    check_each(partial(_check_sequence, config), survey.feed)
    order = {} if survey.manifest is None else survey.manifest.spec["order"]
    if config.sequence_pattern is not None or order.get("pattern") is not None:  # the last is a conflict of its own
        return
    merged = [part.name for part in survey.manifest.feed[-_MERGED:]] if survey.manifest is not None else []
    found = contradiction([*(source.name for source in survey.feed), *merged])
    if found is not None:
        why, pattern = found
        cure = f"say with {setting('sequence.pattern')} where the sequence is"
        if pattern is not None:
            cure = f"use {option('sequence.pattern', pattern)}"
        if "pattern" in order:  # sequences of the records are these digits
            cure += (
                " in a new table"
                if survey.versioned
                else f", with {setting('master.adopt=true')}, which forgets tombstones"
            )
        raise error("sequence.contradicts", why=why, cure=cure)


def _check_sequence(config: Config, source: Source) -> None:
    if source.sequence is None:
        where = "digits after the last '_' of the stem, as in ups_prod_1427761080.txt"
        if config.sequence_pattern is not None:
            where = f"none that {setting(f'sequence.pattern={config.sequence_pattern.text}')} finds"
        raise error("sequence.missing", path=source.path, where=where)
