"""The report of a run as a small table of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from mutator.errors.display import counted, one_line
from mutator.pipeline.html_report.sums import feed_sum, master_sum

if TYPE_CHECKING:
    from mutator.pipeline.report import Report

_CELL = "padding: 1px 12px 1px 0; text-align: left; vertical-align: top"
_NUMBER = "padding: 1px 24px 1px 0; text-align: right; font-variant-numeric: tabular-nums"


def html_of(report: Report) -> str:
    """Return a report as HTML: its paths, the counts that are not 0, the first rejects, notes and warnings."""
    n = report.counts
    head = f"run {report.run}" + (" (dry run: nothing was written)" if report.dry_run else "")
    rows = [
        *_row("master", report.master),
        *(row for part in report.feed for row in _row("feed", part)),
        *_row("output", report.output),
    ]
    sides = [[(one.name, one.rows), *one.some] for one in (feed_sum(n), master_sum(n))]
    sides[1] += [("output rows", n["output rows"])]
    sides[1] += [("tombstones", n["tombstones out"])] if n["tombstones out"] else []
    counts = []
    for number in range(max(map(len, sides))):
        cells = [_count(*column[number]) if number < len(column) else "<td></td><td></td>" for column in sides]
        counts.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join(
        [
            '<div style="font-size: 90%">',
            f"<div>{_text(head)}</div>",
            f'<table style="border: none"><tbody>{"".join(rows)}</tbody></table>',
            f'<table style="border: none"><tbody>{"".join(counts)}</tbody></table>',
            *(f"<div>{_text(line)}</div>" for line in _lines(report)),
            "</div>",
        ]
    )


def _lines(report: Report) -> Iterator[str]:
    for rows in report.rejects.values():
        for row in rows:
            yield f"rejected: {row['path']}: {row['place']}: {row['reason']}"
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"warning: {warning}" for warning in report.warnings)
    done = "would write" if report.dry_run else "wrote"
    yield f"{done} {counted(report.counts['output rows'], 'row')}; {report.seconds:.1f} s"


def _row(name: str, value: str) -> Iterator[str]:
    yield f'<tr><th style="{_CELL}">{_text(name)}</th><td style="{_CELL}">{_text(value)}</td></tr>'


def _count(name: str, count: int) -> str:
    return f'<th style="{_CELL}">{_text(name)}</th><td style="{_NUMBER}">{count:,}</td>'


def _text(value: str) -> str:
    return escape(one_line(value))
