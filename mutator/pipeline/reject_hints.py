"""Settings that explain rejected rows: a number of fields, a header, or deletes without an order value."""

from collections.abc import Iterator, Sequence

from mutator.engine.receipts import RejectSample
from mutator.errors.display import counted
from mutator.formats.blocks.row_layout import RowLayout
from mutator.formats.files.registry import FILE_FORMATS
from mutator.plan.inspect.headers import header_names, is_line_of_names
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input


def reject_hints(plan: Plan, side: str, samples: Sequence[RejectSample]) -> Iterator[str]:
    """Yield a sentence for each setting that may be the cause of rejects, without a full stop.

    side: "master" or "feed". samples: the first of its rejected rows.
    """
    files = {one.source.path: one for one in plan.inputs if one.side == side}
    found = [(sample, files[sample.path]) for sample in samples if sample.path in files]
    for sample, file in found:
        if _looks_like_header(plan, file, sample):
            yield f"If line 1 of {file.source.name} is a header, set header.lines=1"
            break
    for file in {file.source.path: file for _, file in found}.values():
        layout, width = plan.rows.layouts[file.layout], file.source.width
        if not isinstance(layout, RowLayout) or width in (None, layout.width) or layout.width is None:
            continue
        own = f"the first row of {file.source.name} has {counted(width or 0, 'field')}"
        if layout.deletes and not plan.by_file_name and width == plan.key_width:
            yield (
                f"If {file.source.name} has IDs alone: deletes need an order value, too, unless order comes from file "
                "names (without temporal.ordering.field.ordinal)"
            )
        else:
            yield f"A row should have {counted(layout.width, 'field')} because {plan.rows.width_from}, and {own}"
        break


def _looks_like_header(plan: Plan, file: Input, sample: RejectSample) -> bool:
    """Return whether a rejected row is the first line of a file without a header, and consists of names."""
    if FILE_FORMATS[file.source.file_format].typed or file.source.header_end or sample.line != 1:
        return False
    layout = plan.rows.layouts[file.layout]
    delimiter = layout.delimiter if isinstance(layout, RowLayout) else None
    fields = delimiter.split(sample.row) if delimiter is not None else sample.row.split(file.source.dialect.delimiter)
    return is_line_of_names(header_names(fields))
