"""Settings in messages as Python callers write them: as arguments of ``mutator.merge``.

>>> as_arguments("reject.policy=quarantine would leave it out")
'reject_policy="quarantine" would leave it out'
"""

import json
import re
from collections.abc import Iterable

from mutator.config.definitions import DEFAULT_OF_FIELD, SETTINGS, SHORT

_ARGUMENTS = {name: setting.short or name.replace(".", "_") for name, setting in SETTINGS.items()}
_ARGUMENTS |= {name: name for name in SHORT}
_KEYS = "|".join(map(re.escape, sorted(_ARGUMENTS, key=len, reverse=True)))
_DOTTED = "|".join(map(re.escape, sorted((key for key in _ARGUMENTS if "." in key), key=len, reverse=True)))
_VALUE = r"true or false|\w+(?:[.,:-]\w+)*"  # without the punctuation of the sentence
_END = r"(?=\s(?![.,;:|])|[;,)]|[.:](?:\s|$)|$)"  # of a whole value, which no other punctuation follows
# Of the first form that fits at a position, the whole match is replaced, or kept; nothing is matched inside of it.
_FORMS = re.compile(
    "|".join(
        (
            rf"-D '(?P<quoted>{_KEYS})=(?P<in_quotes>(?:[^']|'\\'')*)'",
            # Options of the command line that are no settings, and words on it.
            r"--(?P<option>master|feed|engine)(?: '(?P<pattern>[^']*)'| (?P<word>records))?(?:, or first in IN_PATHS)?",
            r"(?P<flag> \(--partitioned-by FIELDS\))",
            # Data of the user: texts in quotes, and paths.
            r"(?P<data>(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|(?<![\w./=-])[^\s'\"(,;]*/[^\s'\"]*)",
            rf"(?:-D )?(?<![\w.'-])(?:(?P<key>{_KEYS})=|(?P<dotted>{_DOTTED}) = )(?P<value>{_VALUE}){_END}",
            rf"(?<![\w.'/-])(?P<alone>{_KEYS})(?![\w'=]|\.\w)",
            rf"(?<![\w.'/-]){re.escape(DEFAULT_OF_FIELD)}(?P<default>\w+)",
        )
    )
)
_LITERALS = {"true": "True", "false": "False", "true or false": "True or False"}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def as_arguments(text: str, data: Iterable[str] = ()) -> str:
    """Return a message with settings as arguments. data: texts of the user in the message, which stay as they are.

    >>> as_arguments("use -D 'deleted.op.code=D,d'; or run again with -D max.delete.fraction=1")
    'use delete_codes="D,d"; or run again with max_delete_fraction=1'
    >>> as_arguments("set allow.empty.master=true for the first run; default.price has no use")
    'set allow_empty_master=True for the first run; default["price"] has no use'
    >>> as_arguments("name it as the master (--master, or first in IN_PATHS), or its files (--feed 'DIR/part-*')")
    'name it as the master (master), or its files (feed="DIR/part-*")'
    >>> as_arguments("/lake/key=abc/f.txt: 'op=U' is no time")
    "/lake/key=abc/f.txt: 'op=U' is no time"
    """
    kept = [part for part in sorted(data, key=len, reverse=True) if part in text and as_arguments(part) != part]
    if not kept:
        return _FORMS.sub(_replaced, text)
    parts = re.split(f"({'|'.join(map(re.escape, kept))})", text)
    return "".join(part if number % 2 else _FORMS.sub(_replaced, part) for number, part in enumerate(parts))


def _replaced(match: re.Match[str]) -> str:
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    if "quoted" in found:
        return _argument(found["quoted"], found["in_quotes"].replace("'\\''", "'"))
    if "option" in found:
        value = found.get("pattern") or found.get("word")
        return found["option"] if value is None else f"{found['option']}={_literal(value)}"
    if "flag" in found:
        return ""
    if "value" in found:
        return _argument(found.get("key") or found["dotted"], found["value"])
    if "alone" in found:
        return _ARGUMENTS[found["alone"]]
    return f"default[{_literal(found['default'])}]" if "default" in found else match[0]


def _argument(name: str, value: str) -> str:
    return f"{_ARGUMENTS[name]}={_literal(value)}"


def _literal(value: str) -> str:
    return value if _NUMBER.fullmatch(value) else _LITERALS.get(value) or json.dumps(value, ensure_ascii=False)
