"""What is wrong with the words of a command line, in the user's spelling of each option, and the cure."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from mutator.config.definitions import OF_FIELDS, SETTINGS, published
from mutator.config.sources import suggestion
from mutator.errors.quick_dataclass import dataclass

Options = Mapping[str, argparse.Action]  # every spelling, also those that help hides
_KINDS = {"int": "a whole number", "float": "a number"}
DASHES = "\u2012\u2013\u2014\u2212"  # which programs for text make of hyphens


@dataclass(frozen=True)
class Usage:
    """The words after a command, and what the command takes.

    program: the words that call it. arguments: those without a name. others: returns the options of each other
    command, by the words that call it.
    """

    words: Sequence[str]
    options: Options
    arguments: Sequence[argparse.Action]
    others: Callable[[], Mapping[str, Options]]
    program: str

    def unknown_option(self, name: str) -> str:
        """Return the message on an option that the command lacks."""
        known = [spelling for spelling, action in self.options.items() if spelling in action.option_strings]
        found = {command: options[name] for command, options in self.others().items() if name in options}
        if found and any(isinstance(one, argparse._SubParsersAction) for one in self.arguments):
            below = [command for command in found if command.startswith(f"{self.program} ")]
            command = max(below or found, key=self._likeness)
            return f"there is no option {name} before the command; write it after it: {command} {name}"
        # An option of a setting may be called otherwise where it is an option of its own.
        is_setting = any(one.flag == name for one in SETTINGS.values())
        others = () if is_setting else (one for one in found.values() if name not in one.option_strings)
        renamed = [one.option_strings[-1] for one in others]
        cure = (
            _beginning_like(f"--{name.lstrip('-' + DASHES)}", known)
            or next((f"; did you mean {new}?" for new in renamed if new in known), "")
            or (_of_setting(name, known) if "-D" in known else "")
            or suggestion(name.replace("_", "-"), known)
        )
        if found:
            first, *more = found
            counted = f" and {len(more)} other command{'s' * (len(more) > 1)}" if more else ""
            return f"there is no option {name}{cure or f'; it is an option of {first}{counted}'}"
        before = next((option for option, word in self._values() if word == name and option), None)
        if not cure and before is not None:
            cure = f"; if it is the value of {before}, write {before}={name}"
        return f"there is no option {name}{cure}"

    def _likeness(self, command: str) -> tuple[bool, int]:
        """Return how much of the words that call a command is on the line."""
        words = command.removeprefix(self.program).split()
        given = [word in self.words for word in words]
        return all(given), sum(given)

    def of_option(self, fault: argparse.ArgumentError) -> str:
        """Return a message of argparse on an option or argument in other words."""
        message = fault.message
        action = self._action(str(fault.argument_name))
        name = str(fault.argument_name) if action is None else self._written(action)
        if message.startswith("expected ") and action is not None:
            return f"{name} needs a value: {_call(action, name)}"
        if message.startswith("ignored explicit argument "):
            return f"{name} takes no value; leave out ={message.partition(chr(39))[2][:-1]}"
        if match := re.fullmatch("invalid ([a-z]+) value: (.*)", message):
            return f"{name}: {match[2]} must be {_KINDS.get(match[1], match[1])}"
        if match := re.fullmatch("not allowed with argument (.*)", message):
            other = self._action(match[1])
            names = f"{match[1] if other is None else self._written(other)} and {name}"
            return f"{names} exclude each other; give one of them"
        return f"{name} {message}" if message.startswith("is ") else f"{name}: {message}"

    def of_line(self, message: str) -> str:
        """Return a message of argparse on a whole command line in other words."""
        _, required, names = message.partition(" are required: ")
        if required:
            return self.missing([action for action in map(self._action, names.split(", ")) if action is not None])
        if match := re.fullmatch("one of the arguments (.*) is required", message):
            missing = [_call(self.options[name.split("/")[0]]) for name in match[1].split()]
            return f"{listed(missing, 'or')} is missing{self._given_instead(missing)}"
        return message

    def missing(self, actions: Iterable[argparse.Action]) -> str:
        """Return the message on options and arguments that a command needs."""
        missing = {_call(action): action in self.arguments for action in actions}
        arguments = [call for call, is_argument in missing.items() if is_argument]
        cure = self._taken(arguments) if arguments else self._given_instead(list(missing))
        return f"{listed(list(missing))} {'is' if len(missing) == 1 else 'are'} missing{cure}"

    def called(self, names: Iterable[str]) -> list[argparse.Action]:
        """Return the options and arguments whose values have some names."""
        actions = {action.dest: action for action in (*self.options.values(), *self.arguments)}
        return [actions[name] for name in names]

    def too_many(self, extra: Sequence[str], missing: Sequence[argparse.Action]) -> str:
        """Return the message on words that neither an option nor an argument takes. missing: options that need one."""
        if missing:
            return self.missing(missing)
        option = next((option for option, word in self._values(one_each=False) if word == extra[0]), None)
        if option is None:
            cure = "leave it out" if len(extra) == 1 else "leave them out"
        elif isinstance(self.options[option], argparse._AppendAction):
            cure = f"repeat {option} before each value, and put a pattern in quotes"
        else:
            cure = f"{option} takes one value; put a value with blanks in quotes"
        return f"unexpected {listed(list(map(repr, extra)))}; {cure}"

    def may_have_taken(self, arguments: Iterable[argparse.Action]) -> str:
        """Return how to give arguments that are not there; empty unless an option has several words after it.

        Any of these words may be meant as one of the arguments.
        """
        greedy = (at for at, word in enumerate(self.words) if word in self._greedy)
        own = (takewhile(lambda word: word[:1] != "-" or word == "-", self.words[at + 1 :]) for at in greedy)
        return self._taken(list(map(_call, arguments))) if any(len(list(words)) > 1 for words in own) else ""

    @property
    def _greedy(self) -> list[str]:
        """Return the options that take every word after them."""
        return [name for name, action in self.options.items() if action.nargs == "+"]

    def _taken(self, arguments: Sequence[str]) -> str:
        """Return the end of a message on missing arguments: an option before them that takes all words."""
        taker = next((word for word in reversed(self.words) if word in self._greedy), "")
        return f"; give {listed(arguments)} before {taker}, which takes every path after it" if taker else ""

    def _given_instead(self, missing: Sequence[str]) -> str:
        """Return the end of a message on missing options: the words that may be their values."""
        strays = [] if self.arguments else [repr(word) for option, word in self._values() if option is None]
        if len(missing) == len(strays) == 1:
            return f"; write {missing[0].split()[0]} before {strays[0]}"
        return f"; no option is before {listed(strays)}" if strays else ""

    def _values(self, *, one_each: bool = True) -> Iterator[tuple[str | None, str]]:
        """Yield each word that is no option of the command, after the option that takes it, or None.

        one_each: of an option with one value. Otherwise an option takes all words up to the next.
        """
        option, is_free = None, False
        for word in self.words:
            name = word.partition("=")[0]
            if name in self.options and name[:1] == "-":
                nargs = self.options[name].nargs
                option = name if nargs != 0 and (name == word or not one_each) else None
                is_free = nargs not in (None, "?")
            else:
                yield option, word
                option = option if is_free or not one_each else None

    def _action(self, name: str) -> argparse.Action | None:
        """Return the option or argument that argparse calls by a name: all of its spellings, or its metavar."""
        of_arguments = (action for action in self.arguments if name in (action.metavar, action.dest))
        return self.options.get(name.split("/")[0]) or next(of_arguments, None)

    def _written(self, action: argparse.Action) -> str:
        """Return the spelling of an option that the user wrote last, or the name of an argument."""
        names = [name for word in self.words for name in (word.partition("=")[0], word[:2]) if word[:1] == "-"]
        written = (name for name in reversed(names) if self.options.get(name) is action)
        return next(written, _call(action).split()[0])


def _call(action: argparse.Action, name: str = "") -> str:
    """Return an option with the word for its value, or the name of an argument."""
    word = f"{{{','.join(map(str, action.choices))}}}" if action.choices and not action.metavar else action.metavar
    if not action.option_strings:
        return str(word or action.dest)
    name = name or action.option_strings[-1]
    return name if action.nargs == 0 else f"{name} {word or action.dest.upper()}"


def _beginning_like(name: str, known: Sequence[str]) -> str:
    """Return the suggestion of the options that begin like a name.

    >>> _beginning_like("--o", ["--order-by", "--master", "--output"])
    '; did you mean --order-by or --output?'
    """
    near = [option for option in known if option.startswith(name.lower())]
    return f"; did you mean {listed(near, 'or')}?" if near else ""


def _of_setting(name: str, known: Sequence[str]) -> str:
    """Return the suggestion of the setting that has a name like an option.

    >>> _of_setting("--id.field.ordinals", ["--key"]), _of_setting("--num-reducer", [])
    ('; did you mean --key?', '; did you mean -D num.reducer=VALUE?')
    """
    bare = name.removeprefix("--")
    found = next((one for one in map(published, (bare, bare.replace("-", "_"))) if one in SETTINGS), None)
    if found is None:
        return f"; did you mean -D {bare}=VALUE?" if bare.startswith(OF_FIELDS) else ""
    flag = SETTINGS[found].flag
    return f"; did you mean {flag if flag in known else f'-D {found}=VALUE'}?"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Join words.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))
