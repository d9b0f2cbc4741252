"""The three forms of a report: text for people, JSON for programs, and a page of HTML."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, cast

from mutator.errors.display import html_of_text, text_of, with_warnings
from mutator.pipeline.reports.sections import ReportSection


class PrintedReport(ABC):
    """A report that is a dataclass, whose fields are the members of its JSON."""

    @abstractmethod
    def sections(self) -> Iterable[ReportSection]:
        """Return the sections, in the order of the text."""

    def text(self, *, verbose: bool = False) -> str:
        """Return the report as lines for a terminal. verbose: also the plan of a merge, and outcomes without rows."""
        return text_of(line for section in self.sections() for line in section.text_lines(verbose=verbose))

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        return asdict(cast(Any, self))

    def json(self) -> str:
        """Return the report as a JSON document."""
        return json.dumps(self.members(), indent=1)

    def __str__(self) -> str:
        return self.text()


class WarningReport(PrintedReport):
    """A report that is the answer of a Python call, and has its warnings."""

    warnings: Sequence[str]

    def __str__(self) -> str:
        return with_warnings(self.text(), self.warnings)

    def _repr_html_(self) -> str:
        return html_of_text(str(self))


class PageReport(PrintedReport):
    """A report that has a page, too."""

    @abstractmethod
    def head(self) -> tuple[str, Iterable[str], Iterable[tuple[str, str]]]:
        """Return the title of the page, the sentences below it, and its first figures: each a value and its name."""

    def html(self) -> str:
        """Return the report as a page of HTML. Raises ConfigError where Jinja2 is not installed."""
        from mutator.pipeline.reports.page import page_of  # an extra

        title, leads, figures = self.head()
        return page_of(title, leads, figures, sorted(self.sections(), key=lambda section: section.rank))
