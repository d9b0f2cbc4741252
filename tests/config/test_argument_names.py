"""Settings in messages become arguments of Python callers; paths and texts of the user stay as they are."""

import pytest

from mutator.config.argument_names import as_arguments

SAME = [
    "/lake/key=abc/f/g.txt: cannot be read",
    "op=U/x/none: cannot be read",
    "no rows in (op=U/x/none), nor in s3://b/reject.policy=fail/a",
    "key=abc/f/g.txt has no rows",
    "the master was written with delimiter = literal ., but this run has literal |",
    "the master was written with key = ordinals 0, types bytes",
    "row 'reject.policy=skip, key=1' is no row",
    'row {"reject.policy": "sync.mode=full"} has no time',
    "feed_7/default.price/x: is missing",
    "output.schema=/lake/schemas/a.avsc",
    "a.reject.policy=x",
]
CHANGED = {
    "field.delim.regex = literal .., but": "delimiter = literal .., but",
    "m/key=1/f.txt: set reject.policy=quarantine; or": 'm/key=1/f.txt: set reject_policy="quarantine"; or',
    "the master's field of id.field.ordinals, in the feed's order": "the master's field of key, in the feed's order",
    "sync.mode = full needs header.lines = 0.": 'sync_mode="full" needs header=0.',
    "'a' needs op.code.field.ordinal": "'a' needs op",
    "set op.code.keep=true or false: ": "set op_code_keep=True or False: ",
    "(-D order.check=false)": "(order_check=False)",
}


@pytest.mark.parametrize("text", SAME)
def test_data_of_the_user_stay(text):
    assert as_arguments(text) == text


@pytest.mark.parametrize("text", CHANGED)
def test_settings_become_arguments(text):
    assert as_arguments(text) == CHANGED[text]


def test_data_that_are_named_stay():
    path = "/lake/my reject.policy=fail dir/a"
    assert as_arguments(f"{path}: set reject.policy=fail", [path, "a"]) == f'{path}: set reject_policy="fail"'


def test_numbers_of_other_punctuation():
    assert as_arguments("max.delete.fraction=0.5: too much") == "max_delete_fraction=0.5: too much"
