"""All checks of plausible mistakes, in the order in which one mistake may look like another."""

from mutator.config import Config
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.delimiters import check_delimiters
from mutator.plan.mistakes.header_rows import check_header_rows
from mutator.plan.mistakes.samples import samples_of


def check_inputs(config: Config, survey: Survey) -> tuple[str, ...]:
    """Raise ConfigError or DataError for a mistake that the first rows show; return warnings of probable mistakes."""
    samples = samples_of(config, survey)
    check_delimiters(config, survey.manifest, samples)
    check_header_rows(config, samples)
    return ()
