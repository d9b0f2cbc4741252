"""The definitions of settings, and what is made from them: reference, help and JSON schema."""

import json
import tomllib
from dataclasses import Field, fields, is_dataclass
from typing import Any

import jsonschema
import pytest

from mutator.cli import main
from mutator.config import Config
from mutator.config.definitions import SECTIONS, SETTINGS, SHORT, definition, published
from mutator.config.reference import json_schema, markdown_reference, text_of_setting, text_of_settings
from mutator.errors import ConfigError

NOT_ATTRIBUTES = {
    "temporal.ordering.field.type",
    "temporal.ordering.field.numeric",
    "input.format",
    "default.FIELD",
} | {"field.merge.FIELD"}


def _settings(spec: Field[Any]) -> list[Field[Any]]:
    """Return the attributes that are settings, of a spec and the specs within."""
    within = fields(spec.default_factory) if is_dataclass(spec.default_factory) else ()
    return [spec] if "setting" in spec.metadata else [found for one in within for found in _settings(one)]


def test_each_setting_has_one_definition_and_one_attribute():
    names = [setting.name for settings in SECTIONS.values() for setting in settings]
    attributes = [one.metadata["setting"].name for spec in fields(Config) for one in _settings(spec)]
    assert len(names) == len(set(names)) == len(SETTINGS)
    assert len(attributes) == len(set(attributes))
    assert set(attributes) == set(names) - NOT_ATTRIBUTES


def test_every_setting_is_in_the_page_and_in_the_text():
    page, text = markdown_reference(), text_of_settings()
    for name, setting in SETTINGS.items():
        first = setting.short or name
        assert f"| `{first}`" in page
        assert f"\n  {first}" in text
        assert f"`{name}`" in page
        assert setting.meaning
        for other in filter(None, (name, setting.short, setting.flag)):
            assert definition(other) is setting
            assert text_of_setting(other).startswith(f"{first}\n")


def test_a_default_has_the_form_of_its_setting():
    for setting in SETTINGS.values():
        if setting.default:
            setting.form.parse(setting.default, ()) if setting.form.takes_names else setting.form.parse(setting.default)


def test_names_of_all_kinds():
    assert {name: setting.name for name, setting in SHORT.items()} == {
        "key": "id.field.ordinals",
        "order_by": "temporal.ordering.field.ordinal",
        "order_type": "temporal.ordering.field.type",
        "op": "op.code.field.ordinal",
        "delete_codes": "deleted.op.code",
        "delimiter": "field.delim.regex",
        "header": "header.lines",
    }
    assert published("--partitioned-by") == "partitioned.by"


@pytest.mark.parametrize(
    "content",
    [
        "",
        'key = "id"\norder_by = "at"\norder_type = "timestamp"\nop = 4\ndelete_codes = ["D", "R"]\nheader = true',
        'key = ["id", 2]\n"op.code.keep" = true\nop = "kind"\n"max.delete.fraction" = 0.25',
        "id.field.ordinals = [0, 2]\nop.code.keep = true\nop.code.field.ordinal = 4\nfield.delim.regex = ';'",
        '"default.colour" = "red"\n[default]\nsize = 4\n[rsbm]\nid.field.ordinals = 0',
        '"split.bytes" = "64m"\n"num.reducer" = 8\n"tombstone.retention" = "90d"\n"input.format" = "csv"',
        '"partitioned.by" = ["store_id", "day=date(ts)"]\nheader = 2\n"field.count" = "any"',
    ],
)
def test_the_schema_accepts(content):
    jsonschema.validate(tomllib.loads(content), json_schema())


@pytest.mark.parametrize(
    "content",
    [
        'kye = "id"',
        '"sync.mode" = "ful"',
        "op.code.kep = true",
        '"op.code.keep" = "maybe"',
        '"num.reducer" = 0',
        '"max.delete.fraction" = 2',
        '"tombstone.retention" = "90"',
        "header = -1",
        'order_type = "date"',
    ],
)
def test_the_schema_refuses(content):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(content), json_schema())


def test_the_schema_is_one():
    jsonschema.Draft7Validator.check_schema(json_schema())


def test_the_options_are_made_from_the_definitions(capsys):
    assert main(["run", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for setting in SHORT.values():
        metavar, meaning = setting.help
        assert f"{setting.flag} {metavar} {meaning}" in shown
        assert not setting.default or f"(default {setting.default})" in shown


def test_command(capsys):
    assert main(["settings"]) == 0
    assert capsys.readouterr().out == text_of_settings() + "\n"
    assert main(["settings", "op"]) == 0
    assert capsys.readouterr().out == text_of_setting("op.code.field.ordinal") + "\n"
    assert main(["settings", "rsbm.sync.mode", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == {"enum": ["partial", "full"]}
    assert main(["settings", "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == list(SETTINGS)
    assert main(["settings", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_wrong_calls_of_the_command(capsys):
    assert main(["settings", "ordr_by"]) == 2
    assert "ordr_by is not a known setting; did you mean order_by?" in capsys.readouterr().err
    assert main(["settings", "op", "--schema"]) == 2
    assert "the schema has all settings: leave out op, or --schema" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="qqq is not a known setting; mutator settings lists all"):
        text_of_setting("qqq")
