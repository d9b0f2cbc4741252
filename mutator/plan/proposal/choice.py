"""A proposed configuration: settings, each with its reason, its alternatives, and the question that the data leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = str | int | bool | list[Any]


@dataclass(frozen=True)
class Choice:
    """One setting. Without a value it is written as a comment."""

    key: str
    value: Value | None
    why: str
    alternatives: Sequence[tuple[Value, str]] = ()  # other values, with their reasons
    question: str | None = None  # None: the data decide
    needed: bool = False  # without a value, no run is possible


@dataclass(frozen=True)
class Proposal:
    """A configuration with its reasons."""

    choices: tuple[Choice, ...]
    notes: tuple[str, ...] = ()  # facts that no setting shows

    @property
    def settings(self) -> Mapping[str, Value]:
        """The settings that have a value, by key."""
        return {choice.key: choice.value for choice in self.choices if choice.value is not None}

    @property
    def questions(self) -> list[str]:
        """What the data do not decide, each as a sentence."""
        return [choice.question for choice in self.choices if choice.question is not None]

    @property
    def usable(self) -> bool:
        """Return whether a run can use the settings."""
        return all(choice.value is not None or not choice.needed for choice in self.choices)
