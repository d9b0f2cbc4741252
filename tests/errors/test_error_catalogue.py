"""The error catalogue: every error kind is used, gets its fields, and can be rendered."""

import ast
import pickle
import re
import string
import traceback

import pytest

from mutator import errors
from mutator.errors import MutatorError, error, exceptions
from mutator.errors.display import printable
from mutator.errors.parts import QUOTES, SETTING, plain, setting
from tests.support.package_source import nodes, of_the_source


def fields_of(kind):
    return {name for _, name, _, _ in string.Formatter().parse(exceptions.CATALOGUE[kind][1]) if name is not None}


@of_the_source
def test_every_error_kind_is_used():
    texts = {
        node.value
        for module, node in nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not module.endswith("_errors")
    }

    assert set(exceptions.CATALOGUE) - texts == set()


@of_the_source
def test_every_error_is_in_the_catalogue_with_its_fields():
    seen, wrong = 0, []
    for module, node in nodes():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "error":
            continue
        if isinstance(node.args[0], ast.Constant) and all(keyword.arg for keyword in node.keywords):
            seen += 1
            kind, given_fields = node.args[0].value, {keyword.arg for keyword in node.keywords}
            if kind not in exceptions.CATALOGUE or fields_of(kind) != given_fields:
                wrong.append(f"{module}:{node.lineno}: {kind} with {sorted(given_fields)}")

    assert wrong == []
    assert seen > 30


def test_each_message_renders():
    for kind in exceptions.CATALOGUE:
        made = error(kind, **{name: f"<{name}>" for name in fields_of(kind)})

        assert made.kind == kind
        assert [name for name in fields_of(kind) if f"<{name}>" not in str(made)] == [], kind
        assert "{" not in str(made), kind
        again = pickle.loads(pickle.dumps(made))
        assert (type(again), again.kind, str(again), again.exit_code) == (type(made), kind, str(made), made.exit_code)


def test_commands_are_ready_for_a_shell():
    wrong, seen = [], 0
    for kind in exceptions.CATALOGUE:
        made = error(kind, **{name: f"{name} x" for name in fields_of(kind)})
        for command in re.findall(
            r"(?<!as )(?<!that )mutator [a-z]+ [^;,.]*", re.sub("'[^']* x(?:@[^']*)?'", "WORD", str(made))
        ):
            wrong += [f"{kind}: {command}"] if " x" in command else []
            seen += "WORD" in command

    assert wrong == []
    assert seen > 5


def test_commands_of_tables_have_their_calls_in_python():
    commands = re.compile(r"mutator (?:table|diff) [^;,.]*")
    texts = [exceptions.CATALOGUE[kind][1] for kind in exceptions.CATALOGUE]
    found = [command for text in texts for command in commands.findall(plain(text))]

    assert len(found) > 5
    assert [command for command in found if "(in Python: " not in command and "…" not in command] == []


def test_each_family_has_one_exit_code():
    codes = {family: family.exit_code for family, _ in exceptions.CATALOGUE.values()}

    assert codes == {
        errors.ConfigError: 2,
        errors.DataError: 3,
        errors.StorageError: 4,
        errors.StateError: 5,
        MutatorError: 70,
    }


def test_no_message_has_control_characters():
    assert str(error("storage", path="a\x1b[2J\rb\u202e", why="x\ny")).startswith("a\\x1b[2J\\rb\\u202e: x\\ny")
    assert printable("é ü\n") == "é ü\n"


def test_a_traceback_ends_with_the_message():
    fault = error("output.exists", path="out")
    assert traceback.format_exception(fault)[-1] == f"mutator.errors.exceptions.StateError: {fault}\n"


def test_a_traceback_has_all_of_a_packed_error():
    with pytest.raises(MutatorError) as found, exceptions.packed():
        raise error("damaged", path=f"s3://me:{'secret'[::-1]}@host/a", why=f"row 'x' of {setting('sync.mode=full')}")
    text = "".join(traceback.format_exception(found.value)).replace("\n", "\n\t")
    again = exceptions.from_traceback(text)
    assert again is not None
    assert (again.kind, again.message) == (found.value.kind, found.value.message)
    assert again.fields == {"path": "s3://me:***@host/a", "why": found.value.fields["why"]}
    again.say({QUOTES: lambda _: "…", SETTING: str.upper})
    assert str(again).startswith("s3://me:***@host/a: …; ")
    assert "secret"[::-1] not in text


@pytest.mark.parametrize("value", ["(as JSON: x)", '(as JSON: ["output.exists", "gone", {}])', "(error x of mutator)"])
def test_a_traceback_has_no_error_that_a_value_quotes(value):
    with pytest.raises(MutatorError) as found, exceptions.packed():
        raise error("rejects", what="2 rows", rows=f"  a: x\n  {value}", cure=value)
    again = exceptions.from_traceback("".join(traceback.format_exception(found.value)) + "\n\tat org.apache.spark")
    assert again is not None
    assert (again.kind, again.message, again.fields) == ("rejects", found.value.message, found.value.fields)


@pytest.mark.parametrize("packed", ['["damaged", "a: tw', '["unknown", "a", {}]', "[[], 1]", "{}", '"damaged"', "1"])
def test_a_traceback_that_was_cut_has_the_message(packed):
    text = f"mutator.errors.exceptions.DataError: a: two\n(error damaged of mutator)\n(as JSON: {packed})\n"
    again = exceptions.from_traceback(text)
    assert again is not None
    assert (again.kind, str(again)) == ("damaged", "a: two")
    assert exceptions.from_traceback(f"(error damaged of mutator)\n(as JSON: {packed})") is None
