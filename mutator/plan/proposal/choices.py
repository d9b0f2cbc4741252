"""A proposed configuration: settings with reasons, alternatives and questions, and as a commented TOML file.

>>> print(setting_line("delimiter", ";"))
delimiter = ";"
"""

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.config.audience import Audience
from mutator.config.definitions import SETTINGS
from mutator.errors.display import one_line, without_secrets
from mutator.errors.parts import plain
from mutator.errors.quick_dataclass import dataclass

Value = str | int | bool | list[Any]
_WIDTH = 110
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_KEY = re.compile(r"\{([a-z.]+)\}")


@dataclass(frozen=True)
class Choice:
    """One setting. Without a value it is written as a comment."""

    key: str
    value: Value | None
    why: str
    alternatives: Sequence[tuple[Value, str]] = ()  # other values, with their reasons
    question: str | None = None  # None: the data decide
    needed: bool = False  # without a value, no run is possible

    def read_by(self, audience: Audience) -> "Choice":
        """Return the choice with its texts as an audience reads them."""
        others = [(value, plain(audience(why))) for value, why in self.alternatives]
        question = None if self.question is None else plain(audience(self.question))
        return replace(self, why=plain(audience(self.why)), alternatives=others, question=question)


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


def short(key: str) -> str:
    """Return the name under which a setting is written: the short one, if it has one.

    >>> short("id.field.ordinals"), short("null.order")
    ('key', 'null.order')
    """
    return (SETTINGS[key].short if key in SETTINGS else None) or key


def in_words(text: str) -> str:
    """Return a text with the short names of the settings that it names as ``{key}``.

    >>> in_words("set {null.order}")
    'set null.order'
    """
    return _KEY.sub(lambda match: short(match[1]), text)


def setting_line(key: str, value: Any) -> str:
    """Write a setting as a line of TOML. A string of JSON is one of TOML, too."""
    name = key if _BARE.fullmatch(key) else json.dumps(key)
    return f"{name} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # As JSON, but TOML has no escapes of surrogates, and allows DEL only as an escape.
        text = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def toml_text(proposal: Proposal, inputs: Iterable[str], places: Mapping[str, Value], command: str) -> str:
    """Return the file. inputs: lines on what was read. places: that it names. command: merges with this file."""
    lines = ["# Proposed by mutator init, from the first rows of", *_comment(inputs, indent="  ")]
    lines += [*_comment(proposal.notes)]
    if proposal.questions:
        lines += ["#", "# Please decide:"]
        for question in proposal.questions:
            lines += _comment([question], indent="- ", following="  ")
    lines += ["", "# Relative to this file", *(setting_line(name, value) for name, value in places.items())]
    for choice in proposal.choices:
        lines += ["", *_setting(choice)]
    return "\n".join([*lines, "", "# Merge with", f"#   {one_line(command)}", ""])


def _setting(choice: Choice) -> list[str]:
    lines = _comment([choice.why])
    if choice.question is not None:
        lines += _comment([f"DECIDE: {in_words(choice.question)}"])
    key = short(choice.key)
    if choice.value is not None:
        lines.append(setting_line(key, choice.value))
    for value, why in choice.alternatives:
        lines += [f"# {setting_line(key, value)}  # {one_line(why)}"]
    return lines


def _comment(texts: Iterable[str], indent: str = "", following: str | None = None) -> list[str]:
    found: list[str] = []
    for text in texts:
        safe = one_line(without_secrets(in_words(text)))
        found += textwrap.wrap(
            safe,
            _WIDTH,
            initial_indent=f"# {indent}",
            subsequent_indent=f"# {indent if following is None else following}",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return found


def listing(proposal: Proposal) -> list[str]:
    """Return each setting and its reason, for a terminal; those without a value as comments."""
    lines = []
    for choice in proposal.choices:
        key = short(choice.key)
        lines.append(f"# {key}" if choice.value is None else setting_line(key, choice.value))
        lines.append(f"    {in_words(choice.why)}")
    return lines
