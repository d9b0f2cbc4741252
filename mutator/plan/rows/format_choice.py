"""Plan the rows of a run or a dataset: as delimited text, or as rows with a schema.

The modules of rows with a schema load Avro and all file formats, so only runs that have such rows import them.
"""

from mutator.config.settings import OutputSpec, RowSpec
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.parts import place
from mutator.plan.inspect.envelopes import unwraps
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.text_rows import stored_text_row_plan, text_row_plan


def row_plan(rows: RowSpec, output: OutputSpec, survey: Survey) -> RowPlan:
    """Decide the rows that a run reads and writes. Raises ConfigError and DataError that name fields and files."""
    _check_files(rows, output, survey)
    is_text = survey.formats <= {"text"} and output.format in (None, "text") and not survey.had_schema
    if is_text and not unwraps(rows.ops):
        return text_row_plan(rows, output, survey)
    from mutator.plan.rows.schema_rows import schema_row_plan

    return schema_row_plan(rows, output, survey)


def _check_files(rows: RowSpec, output: OutputSpec, survey: Survey) -> None:
    """Raise ConfigError if nothing shows which fields the rows have: there is no file, and settings name fields."""
    if survey.feed or survey.master or survey.state is not None or survey.output_schema is not None:
        return
    if not rows.text.names and (rows.called or output.format not in (None, "text")):
        raise error("feed.none", path=", ".join(map(place, survey.feed_paths)))


def stored_row_plan(known: State) -> RowPlan:
    """Return the row plan of a dataset, as its manifest describes it."""
    if "fields" not in known.spec["key"]:
        return stored_text_row_plan(known)
    from mutator.plan.rows.schema_rows import stored_schema_row_plan

    return stored_schema_row_plan(known)
