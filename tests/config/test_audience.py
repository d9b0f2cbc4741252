"""Each audience writes the settings of a message in its own way; texts of the user stay as they are."""

import pickle

import pytest

from mutator.config import parse
from mutator.config.audience import PYTHON, SWITCHES, Audience
from mutator.errors import ConfigError, error
from mutator.errors.exceptions import said_to
from mutator.errors.parts import MASTER, argument, option, plain, setting

OPTIONS = Audience({"op.code.field.ordinal": "--op", "deleted.op.code": "--delete-codes", **SWITCHES})
FILE = Audience({"deleted.op.code": "delete_codes"})
OVERRIDDEN = Audience({"field.count": "-D field.count"})


@pytest.mark.parametrize(
    ("part", "audience", "written"),
    [
        (setting("op.code.field.ordinal"), PYTHON, "op"),
        (setting("op.code.field.ordinal"), OPTIONS, "--op"),
        (setting("op.code.field.ordinal"), FILE, "op.code.field.ordinal"),
        (setting("op.code.keep=true or false"), PYTHON, "op_code_keep=True or False"),
        (setting("max.delete.fraction=0.5"), PYTHON, "max_delete_fraction=0.5"),
        (setting("sync.mode = full"), PYTHON, 'sync_mode="full"'),
        (setting("field.count = 3"), OVERRIDDEN, "-D field.count = 3"),
        (setting("-D order.check=false"), PYTHON, "order_check=False"),
        (setting("-D allow.empty.feed=true"), OPTIONS, "--allow-empty"),
        (setting("-D allow.empty.feed=true"), FILE, "-D allow.empty.feed=true"),
        (setting("default.price"), PYTHON, 'default["price"]'),
        (option("deleted.op.code", "D,d"), OPTIONS, "'--delete-codes=D,d'"),
        (option("deleted.op.code", "D,d"), FILE, "-D 'delete_codes=D,d'"),
        (option("deleted.op.code", "it's"), PYTHON, 'delete_codes="it\'s"'),
        (option("deleted.op.code", "it's"), Audience(), "-D 'deleted.op.code=it'\\''s'"),
        (argument("--engine records"), PYTHON, 'engine="records"'),
        (argument("--engine records"), OPTIONS, "--engine records"),
        (MASTER, PYTHON, "the master"),
        (MASTER, Audience(merged="the table"), "the table"),
    ],
)
def test_settings(part, audience, written):
    assert plain(audience(f"m/op=U: use {part}; or")) == f"m/op=U: use {written}; or"


def test_errors_keep_their_parts_in_other_errors_and_processes():
    inner = error("feed.empty", path="a")
    outer = pickle.loads(pickle.dumps(error("feed.bad", path="in", count=2, why=inner)))
    with pytest.raises(type(outer)) as found, said_to(PYTHON.writers):
        raise outer
    assert 'a: sync_mode="full" needs' in str(found.value)
    assert 'or use sync_mode="partial"' in str(found.value)
    assert "sync.mode=full" in str(inner)


def test_a_value_cannot_be_a_part():
    fault = error("usage", what="\x0essync.mode\x0f\x1b and \x0e\x0f")
    assert str(fault) == "sync.mode\\x1b and \\x0e"


def test_names_of_a_file_stay_in_python():
    names = {"deleted.op.code": "delete_codes"}
    with pytest.raises(ConfigError, match="delete_codes: ") as found, said_to(Audience(names, python=True).writers):
        parse({"key": 0, "order_by": 1, "delete_codes": "D", "delete.when": "not null", "op": 2})
    assert 'delete_when="not null"' in str(found.value)
