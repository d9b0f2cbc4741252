"""The paths in the messages of a base are as the caller spelled it, and where its files are."""

from mutator.errors import error
from mutator.errors.parts import paths_in, place
from mutator.workflow.directory.paths import Base

BASE = Base("/real/base", "base")
PUT_BACK = {"/real/base/working/7": "/real/base/incr"}


def test_only_paths_are_written_anew():
    text = f"{place('/real/base/working/7/ups_1.txt')}: see {place('/real/base2/a')}, not /real/base/a"
    assert BASE.said(text, PUT_BACK) == "base/incr/ups_1.txt: see /real/base2/a, not /real/base/a"
    assert BASE.said(text) == "base/working/7/ups_1.txt: see /real/base2/a, not /real/base/a"
    assert Base("/real/base").shown("/real/base/incr") == "/real/base/incr"


def test_an_error_keeps_its_paths_for_the_next_reader():
    fault = error("changed.content", path="/real/base/working/7/ups_1.txt")
    fault.say(BASE.writers(PUT_BACK))
    assert str(fault).startswith("base/incr/ups_1.txt: was rewritten")
    assert paths_in(fault.message) == [fault.fields["path"]] == ["base/incr/ups_1.txt"]
