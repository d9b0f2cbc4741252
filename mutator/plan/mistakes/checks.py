"""All checks of plausible mistakes, in the order in which one mistake may look like another."""

from mutator.config import Config
from mutator.errors import error
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.delimiters import backslash_warnings, check_delimiters, null_warnings
from mutator.plan.mistakes.header_rows import check_header_rows
from mutator.plan.mistakes.id_forms import id_warnings, warnings_on_keys
from mutator.plan.mistakes.op_codes import (
    check_forgotten_dialect,
    check_forgotten_op,
    check_op_codes,
    dialect_warnings,
)
from mutator.plan.mistakes.orders import order_warnings
from mutator.plan.mistakes.roles import check_feed_directories, check_partition_directories, check_roles, role_warnings
from mutator.plan.mistakes.samples import samples_of


def check_inputs(config: Config, survey: Survey) -> tuple[str, ...]:
    """Raise ConfigError or DataError for a mistake that the first rows show; return warnings of probable mistakes."""
    if config.history.is_kept and not survey.versioned:
        cure = "create a table with it: mutator table create --history; or run one workflow with it"
        raise error(
            "table.history", why="only a versioned table keeps a history, and a base beside its master", cure=cure
        )
    check_roles(config.rows, survey)
    check_forgotten_dialect(config.rows, survey)
    samples = samples_of(config.rows, survey)
    check_delimiters(config.rows, survey.state, samples)
    check_header_rows(config.rows, samples)
    check_op_codes(config.rows.ops, samples)
    check_forgotten_op(config.rows.ops, config.operation, config.output, survey)
    check_partition_directories(config.rows.key, config.inputs, survey)
    check_feed_directories(config.rows, survey)
    return (
        *dialect_warnings(config.rows, config.output, survey),
        *warnings_on_keys(config.rows, survey.feed),
        *role_warnings(config.rows.ops, survey),
        *order_warnings(config.rows, survey, samples),
        *id_warnings(config.rows.key, survey, samples),
        *backslash_warnings(config.given, samples),
        *null_warnings(config.rows, samples),
    )
