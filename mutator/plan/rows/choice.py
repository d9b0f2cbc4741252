"""Plan the rows of a run or a dataset: as delimited text, or as rows with a schema.

The modules of rows with a schema load Avro and all file formats, so only runs that have such rows import them.
"""

from mutator.config import Config
from mutator.dataset.manifest import Manifest
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.text_rows import stored_text_row_plan, text_row_plan


def row_plan(config: Config, survey: Survey) -> RowPlan:
    """Decide the rows that a run reads and writes. Raises ConfigError and DataError that name fields and files."""
    if survey.formats <= {"text"} and config.output_format in (None, "text") and not survey.had_schema:
        return text_row_plan(config, survey)
    from mutator.plan.rows.schema_rows import schema_row_plan

    return schema_row_plan(config, survey)


def stored_row_plan(known: Manifest) -> RowPlan:
    """Return the row plan of a dataset, as its manifest describes it."""
    if "fields" not in known.spec["key"]:
        return stored_text_row_plan(known)
    from mutator.plan.rows.schema_rows import stored_schema_row_plan

    return stored_schema_row_plan(known)
