"""The forms of values: the parser of a setting's text, and its JSON schema.

>>> FLAG.parse("true"), FLAG.schema
(True, {'type': 'boolean'})
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mutator.config import field_parsers, parsers
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.delimiter import field_delimiter
from mutator.rules.encodings import parse_encoding
from mutator.rules.epochs import parse_epochs
from mutator.rules.file_sequences import parse_pattern
from mutator.rules.merge_names import checked_choice
from mutator.rules.order_types import TYPES, parse_types
from mutator.rules.shown_fields import parse_shown

_TEXT: Mapping[str, Any] = {"type": "string"}
_NUMBER_OR_NAME: Mapping[str, Any] = {"type": ["integer", "string"], "minimum": 0}
_TEXTS: Mapping[str, Any] = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}


@dataclass(frozen=True)
class Form:
    """How a setting is written. schema: JSON schema of its value in TOML."""

    parse: Callable[..., Any]  # of text; raises ValueError with the expected form
    schema: Mapping[str, Any]
    parse_list: Callable[..., Any] = parsers.single  # of the elements of a list, which stay as they are
    takes_names: bool = False  # the parsers also get the names of all fields


def _list_of(parse: Callable[..., Any], parts: Callable[[str], list[str]] = parsers.text_parts) -> Form:
    """Return the form of a list: of TOML and Python, or a text with commas between the elements."""
    return Form(lambda text: parse(parts(text)), _TEXTS, parse)


def one_of(*values: str) -> Form:
    """Return the form of a setting that has only these values."""
    return Form(parsers.one_of(*values), {"enum": list(values)})


FLAG = Form(parsers.flag, {"type": "boolean"})
WHOLE = Form(parsers.whole, {"type": "integer", "minimum": 0})
POSITIVE = Form(parsers.positive, {"type": "integer", "minimum": 1, "maximum": 999999})
HEADER = Form(parsers.header_lines, {"anyOf": [{"type": "boolean"}, WHOLE.schema]})
FRACTION = Form(parsers.fraction, {"type": "number", "minimum": 0, "maximum": 1})
DURATION = Form(parsers.duration, {"type": "string", "pattern": "^ *[0-9]{1,9} *[smhdw] *$"})
AGE = Form(parsers.age, {"type": "string", "pattern": r"^ *[0-9]{1,9}(\.[0-9]{1,3})? *[smhdw] *$"})
_SIZE_TEXT = "^ *[0-9]{1,15} *[kKmMgG]?([iI]?[bB])? *$"
SIZE = Form(
    parsers.size,
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE_TEXT}]},
)
MEMORY = Form(parsers.memory, SIZE.schema)
TEXT = Form(str, _TEXT)
TEXTS = _list_of(parsers.texts)
HISTORY = Form(parsers.history, {"anyOf": [{"enum": ["off", "on"]}, {"type": "boolean"}]})
HISTORY_COLUMNS = _list_of(parsers.history_columns)
SHOWN = _list_of(parse_shown)
CODES = _list_of(parsers.codes, parsers.code_parts)
JOINT = Form(parsers.joint, _TEXT)
NULL = Form(parsers.null, _TEXT)
ESCAPE = Form(parsers.escape, _TEXT)
SUFFIX = Form(parsers.suffix, _TEXT)
DELIMITER = Form(field_delimiter.parse, _TEXT)
ENCODING = Form(parse_encoding, _TEXT)
FORMAT = Form(parsers.file_format, {"enum": list(parsers.FILE_FORMATS)})
OUTPUT_FORMAT = Form(parsers.output_format, {"enum": list(parsers.OUTPUT_FORMATS)})
PATTERN = Form(parsers.pattern, _TEXT)
SEQUENCES = Form(parse_pattern, _TEXT)
COUNT = Form(parsers.field_count, {"anyOf": [{"enum": ["auto", "any"]}, {"type": "integer", "minimum": 1}]})
_ONE_NAME = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 1}
FIELD = Form(
    field_parsers.ordinal_or_unset,
    {"anyOf": [_NUMBER_OR_NAME, _ONE_NAME]},
    field_parsers.listed_ordinal,
    takes_names=True,
)
FIELDS = Form(
    field_parsers.ordinals,
    {"anyOf": [_NUMBER_OR_NAME, {"type": "array", "items": _NUMBER_OR_NAME}]},
    field_parsers.listed_ordinals,
    takes_names=True,
)
FIELD_CHOICE = replace(FIELDS, parse=field_parsers.field_choice, parse_list=field_parsers.listed_choice)
ORDER_FIELDS = replace(FIELDS, parse=field_parsers.order_fields, parse_list=field_parsers.listed_order_fields)
_ORDER_TYPE = f"({TYPES})?( *(asc|desc))?"
ORDER_TYPES = Form(
    lambda text: parse_types(parsers.text_parts(text)),
    {"anyOf": [{"type": "string", "pattern": f"^ *{_ORDER_TYPE} *(, *{_ORDER_TYPE} *)*$"}, _TEXTS["anyOf"][1]]},
    parse_types,
)
MERGE = Form(checked_choice, _TEXT)
AS_OF = Form(field_parsers.as_of, _TEXT, takes_names=True)
EPOCHS = replace(_list_of(parse_epochs), schema={"anyOf": [WHOLE.schema, *_TEXTS["anyOf"]]})
CONDITIONS = Form(field_parsers.conditions, _TEXT, takes_names=True)
PARTITION_FIELDS = Form(field_parsers.partition_fields, _TEXTS, field_parsers.listed_partition_fields, takes_names=True)
