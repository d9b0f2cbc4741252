"""The two forms of the reports of commands on tables: text for people, JSON for programs."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, cast


class PrintedReport(ABC):
    """A report that is a dataclass, whose fields are the members of its JSON."""

    @abstractmethod
    def text(self) -> str:
        """Return the report as lines for a terminal."""

    def json(self) -> str:
        """Return the report as a JSON document."""
        return json.dumps(asdict(cast(Any, self)), indent=1)

    def __str__(self) -> str:
        return self.text()
