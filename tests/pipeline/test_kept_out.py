"""``report.fields`` keeps values out of every form of a report."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.config import load, parse
from mutator.errors import ConfigError, DataError, error
from mutator.errors.exceptions import said_to
from mutator.rules.shown_fields import parse_shown
from tests.support.local_engine import mutate

TEXT = {"key": [0, 1], "order_by": 2, "delimiter": ",", "field_count": 4, "max_delete_fraction": 1}
SECRETS = ("secret-key", "secret-shop", "7777", "secret-value", "secret-date")


@pytest.fixture
def places(tmp_path):
    """Return a master and a feed with a tie, a late row and rejects; every value of a field is in SECRETS."""
    for name in ("master", "feed"):
        (tmp_path / name).mkdir()
    (tmp_path / "master" / "m.txt").write_text("secret-key,secret-shop,7777,a\n")
    (tmp_path / "feed" / "f.txt").write_text(
        "secret-key,secret-shop,7777,secret-value\nsecret-key,secret-shop,7776,b\nsecret-value\n"
        "secret-key,secret-shop,secret-date,c\n"
    )
    (tmp_path / "late.txt").write_text("secret-key,secret-shop,7776,d\n")
    return tmp_path


def forms(report):
    return {"text": str(report), "json": report.json(), "html": report.html(), "notebook": report._repr_html_()}


def merge(places, fields, feed="feed", **more):
    settings = {"reject_policy": "quarantine", "max_reject_fraction": 1, **TEXT, **more}
    output = places / f"out-{len(list(places.iterdir()))}"
    return mutator.merge(master=places / "master", feed=places / feed, output=output, report_fields=fields, **settings)


@pytest.mark.parametrize("feed", ["feed", "late.txt"])
def test_no_value_is_shown(places, feed):
    report = merge(places, "none", feed, partitioned_by=["1"])

    assert report.rejects.to_arrow().num_rows == report.counts["feed rejected"]  # the data are there
    for form, shown in forms(report).items():
        assert [one for one in SECRETS if one in shown] == [], form
    assert "report.fields keeps out the values of all fields" in report.html()
    assert report.counts["tied"] == (feed == "feed")


@pytest.mark.parametrize("fields", ["0,2", "-1,-3"])
def test_some_values_are_shown(places, fields):
    report = merge(places, fields)

    for form, shown in forms(report).items():
        assert [one for one in ("secret-shop", "secret-value", "secret-date") if one in shown] == [], form
    assert report.samples["tied"] == ["secret-key,…"]
    assert merge(places, fields, "late.txt").late["lowest"] == "7776"


def test_everything_is_shown_by_default(places):
    report = merge(places, "all", partitioned_by=["1"])

    assert report.kept_out is None
    assert [one for one in ("secret-shop", "secret-value", "secret-date") if one not in report.html()] == []


def test_the_message_of_rejected_rows_has_no_value(places):
    with pytest.raises(DataError) as stopped:
        merge(places, "-3", reject_policy="fail")

    assert [one for one in SECRETS if one in str(stopped.value)] == []


def test_a_value_with_an_apostrophe_is_kept_out_whole(places):
    rows = "".join(f"k{number},s,{number},O'Secret\n" for number in range(9)) + "k,s,it's a secret-date,c\n"
    (places / "feed" / "f.txt").write_text(rows)

    (places / "c.properties").write_text("op.code.field.ordinal=3\n")  # of the original job, so any code is an upsert
    settings = {"id.field.ordinals": "0,1", "temporal.ordering.field.ordinal": 2, "reject.policy": "quarantine"}
    settings["report.fields"] = "none"
    config = load(places / "c.properties", [f"{name}={value}" for name, value in settings.items()])
    config = replace(config, limits=replace(config.limits, max_reject_fraction=1.0, max_delete_fraction=1.0))
    output = str(places / "out")
    report = mutate(config, master=str(places / "master"), feed=[str(places / "feed")], output=output)

    assert any("'…'" in warning for warning in report.warnings)
    for form, shown in forms(report).items():
        assert "Secret" not in shown, form
        assert "secret-date" not in shown, form


def test_a_warning_on_the_terminal_has_no_value(places, capsys):
    rows = "".join(f"k{number},s,{number},O'Secret\n" for number in range(9))
    (places / "feed" / "f.txt").write_text(rows)
    words = [
        "run",
        "--master",
        str(places / "master"),
        "--feed",
        str(places / "feed"),
        "--config",
        str(places / "c.properties"),
    ]
    (places / "c.properties").write_text(
        "id.field.ordinals=0,1\ntemporal.ordering.field.ordinal=2\nop.code.field.ordinal=3\n"
    )
    words += ["-D", "max.delete.fraction=1", "--output", str(places / "out")]

    for fields, is_shown in (("all", True), ("none", False)):
        assert main([*words, "--dry-run", "-D", f"report.fields={fields}"]) == 0
        assert ("Secret" in capsys.readouterr().err) == is_shown


def test_an_error_of_data_has_no_value():
    for fields, shown in (("all", "a is '7'"), ("none", "a is '…'")):
        audience = parse({"key": 0, "report.fields": fields}).wording.audience
        with pytest.raises(DataError, match=shown), said_to(audience.writers):
            raise error("table.rows", table="t", what="a is '7'", cure="")


def test_fields_have_names_in_tables(tmp_path):
    master = pa.table({"id": ["secret-key"], "ts": [7777], "mail": ["a"]})
    feed = pa.table({"id": ["secret-key"], "ts": [7777], "mail": ["secret-value"]})
    settings = {"master": master, "feed": feed, "key": "id", "order_by": "ts"}

    assert mutator.merge(**settings, report_fields="-mail").samples == {"tied": ["secret-key"]}
    assert mutator.merge(**settings, report_fields="-id").samples == {"tied": ["…"]}
    assert mutator.merge(**settings, report_fields=["ts"]).samples == {"tied": ["…"]}


@pytest.mark.parametrize("fields", ["-mial", "-1", "mial"])
def test_a_field_that_does_not_exist_is_an_error(fields):
    table = pa.table({"id": [1], "ts": [1], "mail": ["a"]})

    with pytest.raises(ConfigError, match="report_fields: there is no field"):
        mutator.merge(master=table, feed=table, key="id", order_by="ts", report_fields=fields)


def test_a_name_in_text_without_names_is_an_error(places):
    with pytest.raises(ConfigError, match="give its ordinal"):
        merge(places, "-mail")


def test_names_of_text_are_those_of_its_settings(places):
    report = merge(places, "-shop", field_names=["id", "shop", "ts", "value"])

    assert report.samples["tied"] == ["secret-key,…"]


@pytest.mark.parametrize("text", [["id", "-mail"], ["all", "id"], [""], ["-"], ["-none"]])
def test_other_forms_are_refused(text):
    with pytest.raises(ValueError, match="must be all, none"):
        parse_shown(text)
