"""Settings in messages as Python callers write them: as arguments of ``mutator.merge``.

>>> as_arguments("reject.policy=quarantine would leave it out")
'reject_policy="quarantine" would leave it out'
"""

import json
import re

from mutator.config.definitions import DEFAULT_OF_FIELD, SETTINGS, SHORT

_ARGUMENTS = {name: setting.short or name.replace(".", "_") for name, setting in SETTINGS.items()}
_ARGUMENTS |= {name: name for name in SHORT}
_KEYS = "|".join(map(re.escape, sorted(_ARGUMENTS, key=len, reverse=True)))
_VALUE = r"true or false|\w+(?:[.,/:-]\w+)*"  # without the punctuation of the sentence
_IN_QUOTES = re.compile(rf"-D '({_KEYS})=((?:[^']|'\\'')*)'")
_WITH_VALUE = re.compile(rf"(?:-D )?(?<![\w.'-])({_KEYS}) ?= ?({_VALUE})(?!')")
_ALONE = re.compile(rf"(?<![\w.'/-])({_KEYS})(?![\w']|\.\w)")
_DEFAULT = re.compile(rf"(?<![\w.'/-]){re.escape(DEFAULT_OF_FIELD)}(\w+)")
# Options of the command line that are no settings, and words on it.
_OPTION = re.compile(r"--(master|feed|engine)(?: '([^']*)'| (records))?(?:, or first in IN_PATHS)?")
_WORDS = re.compile(r" \(--partitioned-by FIELDS\)")
_LITERALS = {"true": "True", "false": "False", "true or false": "True or False"}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def as_arguments(text: str) -> str:
    """Return a message with settings as arguments.

    >>> as_arguments("use -D 'deleted.op.code=D,d'; or run again with -D max.delete.fraction=1")
    'use delete_codes="D,d"; or run again with max_delete_fraction=1'
    >>> as_arguments("set allow.empty.master=true for the first run; default.price has no use")
    'set allow_empty_master=True for the first run; default["price"] has no use'
    >>> as_arguments("name it as the master (--master, or first in IN_PATHS), or its files (--feed 'DIR/part-*')")
    'name it as the master (master), or its files (feed="DIR/part-*")'
    """
    text = _IN_QUOTES.sub(lambda match: _argument(match[1], match[2].replace("'\\''", "'")), text)
    text = _WITH_VALUE.sub(lambda match: _argument(match[1], match[2]), text)
    text = _ALONE.sub(lambda match: _ARGUMENTS[match[1]], text)
    text = _DEFAULT.sub(lambda match: f"default[{_literal(match[1])}]", text)
    return _WORDS.sub("", _OPTION.sub(_option, text))


def _option(match: re.Match[str]) -> str:
    value = match[2] or match[3]
    return match[1] if value is None else f"{match[1]}={_literal(value)}"


def _argument(name: str, value: str) -> str:
    return f"{_ARGUMENTS[name]}={_literal(value)}"


def _literal(value: str) -> str:
    return value if _NUMBER.fullmatch(value) else _LITERALS.get(value) or json.dumps(value, ensure_ascii=False)
