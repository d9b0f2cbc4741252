"""Plan the rows of a run or a dataset: as delimited text, or as rows with a schema.

The modules of rows with a schema load Avro and all file formats, so only runs that have such rows import them.
"""

from dataclasses import replace

from mutator.config.settings import OutputSpec, RowSpec
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.parts import place
from mutator.plan.inspect.envelopes import unwraps
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.text_rows import stored_text_row_plan, text_row_plan
from mutator.rules.epochs import NO_EPOCHS, epochs_in
from mutator.rules.order_values import is_tuple


def row_plan(rows: RowSpec, output: OutputSpec, survey: Survey) -> RowPlan:
    """Decide the rows that a run reads and writes. Raises ConfigError and DataError that name fields and files."""
    _check_files(rows, output, survey)
    found = _row_plan(rows, output, survey)
    if not (found.orders_beside and is_tuple(found.order_type)):  # values without room for an epoch
        return found
    before = NO_EPOCHS if survey.state is None else epochs_in(survey.state.spec)
    has_part = any(one.wrapped is not None and one.wrapped.envelope.epoch in rows.order.fields for one in survey.feed)
    epoch = 0 if has_part else rows.order.epochs.of_unnamed
    return replace(found, epoch=epoch, spec={**found.spec, **before.after(rows.order.epochs).spec()})


def _row_plan(rows: RowSpec, output: OutputSpec, survey: Survey) -> RowPlan:
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
