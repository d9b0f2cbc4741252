"""The defaults of settings, and of earlier releases: a run is explained with those that it had."""

import json
from pathlib import Path

import pytest

from mutator.config import parse
from mutator.config.definitions import SETTINGS, newest_defaults
from mutator.config.feed_settings import as_recorded, feed_settings
from mutator.errors import ConfigError
from tests.support.other_defaults import change_default

# Version of the defaults -> those that changed with it, of the settings that runs record.
KNOWN = json.loads(Path(__file__).with_name("defaults.json").read_text())


def test_no_default_of_an_earlier_run_is_lost():
    assert [int(version) for version in KNOWN] == list(range(1, newest_defaults() + 1))
    for name, setting in SETTINGS.items():
        if not setting.is_recorded:
            continue
        found = [setting.earlier.get(version, setting.default) for version in sorted(setting.earlier)]
        recorded = [KNOWN[version][name] for version in KNOWN if name in KNOWN[version]]
        assert [*found, setting.default] == recorded, (
            f"{name}: keep its old default in ``earlier``, by the last number of tests/config/defaults.json, and add "
            "the new one to that file, by the next number; the default of a new setting goes there by the last number"
        )


def test_settings_of_an_earlier_run_come_with_its_defaults(monkeypatch):
    early = feed_settings(parse({"key": "id", "num.reducer": "8"}).given)
    change_default(monkeypatch, "tombstone.retention", "90d")
    later = feed_settings(parse({"key": "id"}).given)
    change_default(monkeypatch, "tombstone.retention", None)
    change_default(monkeypatch, "csv.null", "NULL")
    last = feed_settings(parse({"key": "id"}).given)

    assert early == {"id.field.ordinals": "id"}
    found = [parse(as_recorded(json.loads(json.dumps(one)))) for one in (early, later, last)]
    assert [(one.retention.tombstones, one.rows.text.csv_null) for one in found] == [
        (None, b""),
        (90 * 86_400, b""),
        (None, b"NULL"),
    ]
    assert [dict(one.given) for one in found] == [{"id.field.ordinals": "id"}] * 3
    assert parse({"key": "id"}).rows.text.csv_null == b"NULL"


def test_other_defaults_of_what_no_attribute_has(monkeypatch):
    change_default(monkeypatch, "temporal.ordering.field.type", "decimal")
    change_default(monkeypatch, "input.format", "csv")

    config = parse({"key": "id", "order_by": "at", "feed.format": "parquet"})

    assert (config.rows.order.type, config.rows.order.stated) == ("decimal", ())
    assert (config.inputs.master_format, config.inputs.feed_format) == ("csv", "parquet")
    assert (
        parse({"key": "id", "order_by": "at", "temporal.ordering.field.numeric": "false"}).rows.order.type == "string"
    )
    early = parse(as_recorded({"key": "id", "order_by": "at"}))
    assert (early.rows.order.type, early.inputs.master_format) == ("long", None)


def test_defaults_of_a_newer_release_are_refused():
    with pytest.raises(ConfigError, match="version of defaults: 2 is of a newer release"):
        parse({"key": "id", "version of defaults": 2})


@pytest.mark.parametrize(
    ("name", "default", "settings"),
    [
        ("reject.policy", "quarantine", {"sync.mode": "full"}),
        ("reject.policy", "quarantine", {"write.operation": "insert_overwrite"}),
        ("replace.damaged", "true", {}),
        ("allow.empty.feed", "true", {}),
    ],
)
def test_no_default_is_blamed_for_a_conflict(name, default, settings, monkeypatch):
    change_default(monkeypatch, name, default)
    assert parse({"key": "id", **settings}).wording.warnings == ()
