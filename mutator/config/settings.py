"""The values of all settings: one frozen ``Config`` of small specs, one for each question of a run.

A room takes the specs that it asks, not the configuration. ``None`` means unset. ``definitions`` has the specs with the
definitions of their settings.

>>> Config(RowSpec(KeySpec((0,)))).rows.order.by_file_name
True
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from mutator.config.audience import Audience
from mutator.config.definitions.files import InputSpec, OutputSpec
from mutator.config.definitions.operations import OpSpec
from mutator.config.definitions.rows import KeySpec, OrderSpec, RowSpec, TextSpec
from mutator.config.definitions.runs import (
    SHOWN,
    EffortSpec,
    HistorySpec,
    LimitSpec,
    OperationSpec,
    RetentionSpec,
    WorkflowSpec,
)
from mutator.config.definitions.setting import attribute
from mutator.errors.display import one_line
from mutator.errors.parts import plain
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.shown_fields import ShownFields

__all__ = [
    "Config",
    "EffortSpec",
    "HistorySpec",
    "InputSpec",
    "KeySpec",
    "LimitSpec",
    "OpSpec",
    "OperationSpec",
    "OrderSpec",
    "OutputSpec",
    "RetentionSpec",
    "RowSpec",
    "TextSpec",
    "WordingSpec",
    "WorkflowSpec",
]


@dataclass(frozen=True)
class WordingSpec:
    """What the user reads: texts with their parts marked, in the words of an audience."""

    report_fields: ShownFields = attribute(SHOWN)
    warned: tuple[str, ...] = ()
    noted: tuple[str, ...] = field(default=(), compare=False)
    audience: Audience = field(default_factory=Audience, compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is strange about the settings, in the words of the audience."""
        return tuple(one_line(plain(self.audience(text))) for text in self.warned)


@dataclass(frozen=True)
class Config:
    """A checked configuration."""

    rows: RowSpec = field(default_factory=RowSpec)
    inputs: InputSpec = field(default_factory=InputSpec)
    operation: OperationSpec = field(default_factory=OperationSpec)
    output: OutputSpec = field(default_factory=OutputSpec)
    limits: LimitSpec = field(default_factory=LimitSpec)
    retention: RetentionSpec = field(default_factory=RetentionSpec)
    history: HistorySpec = field(default_factory=HistorySpec)
    effort: EffortSpec = field(default_factory=EffortSpec)
    workflow: WorkflowSpec = field(default_factory=WorkflowSpec)
    wording: WordingSpec = field(default_factory=WordingSpec)
    # The settings that the user gave, by their published names
    given: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def read_by(self, audience: Audience) -> "Config":
        """Return the configuration with an audience, from which its messages hide the values that reports hide."""
        audience = replace(audience, hides=not self.wording.report_fields.all)
        return replace(self, wording=replace(self.wording, audience=audience))
