"""Each audience writes the settings of a message in its own way; texts of the user stay as they are."""

import pickle
import subprocess

import pytest

from mutator.config import parse
from mutator.config.audience import PYTHON, SWITCHES, Audience
from mutator.errors import ConfigError, error
from mutator.errors.exceptions import said_to
from mutator.errors.parts import MASTER, argument, option, place, plain, quoted_value, quoting, setting, word

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
        (option("deleted.op.code", "it's\x01\n\udcff"), Audience(), "-D $'deleted.op.code=it\\'s\\x01\\x0a\\xff'"),
        (option("deleted.op.code", "a\x01\n\udcff"), PYTHON, 'delete_codes="a\\u0001\\n\\udcff"'),
        (word("/tmp/data"), OPTIONS, "/tmp/data"),
        (
            word(f"{place('/tmp/x/my data')}@3"),
            Audience(paths=lambda path: path.removeprefix("/tmp/x/")),
            "'my data@3'",
        ),
        (argument("--engine records"), PYTHON, 'engine="records"'),
        (argument("--engine records"), OPTIONS, "--engine records"),
        (MASTER, PYTHON, "the master"),
        (MASTER, Audience(merged="the table"), "the table"),
        (quoted_value(b"lamp"), PYTHON, "'lamp'"),
        (quoted_value(b"lamp"), Audience(hides=True), "'…'"),
        (quoting("a is 'lamp'"), Audience(hides=True), "a is '…'"),
        (place("/tmp/x/feed"), PYTHON, "/tmp/x/feed"),
        (place("/tmp/x/feed"), Audience(paths=lambda path: path.removeprefix("/tmp/x/")), "feed"),
    ],
)
def test_settings(part, audience, written):
    assert plain(audience(f"m/op=U: use {part}; or")) == f"m/op=U: use {written}; or"


def test_words_of_commands_reach_a_shell_as_they_are():
    code, path = "it's\x01\n\udcff,é\u200b", "my \t data"
    inner = error("usage", what=f"use {option('upsert.op.code', code)} in {word(path)}")
    text = str(error("feed.bad", path="in", count=2, why=inner))
    used = text.partition("use ")[2]
    script = f"printf '%s|' {used.replace(' in ', ' ')}"
    echoed = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout

    assert text.isprintable()
    assert echoed.decode("utf-8", "surrogateescape") == f"-D|upsert.op.code={code}|{path}|"


def test_errors_keep_their_parts_in_other_errors_and_processes():
    inner = error("feed.empty", path="a")
    outer = pickle.loads(pickle.dumps(error("feed.bad", path="in", count=2, why=inner)))
    with pytest.raises(type(outer)) as found, said_to(PYTHON.writers):
        raise outer
    assert 'a: sync_mode="full" needs' in str(found.value)
    assert 'or use sync_mode="partial"' in str(found.value)
    assert "sync.mode=full" in str(inner)


def test_an_audience_writes_the_paths_of_an_error_and_of_its_fields():
    address = place("https://host/a.csv?sig=1")
    fault = error("schema.type", field="f", one="int", path="b/1", other_type="text", other_path="c/2", why=address)
    with pytest.raises(type(fault)) as found, said_to(Audience(paths=str.upper).writers):
        raise fault
    assert str(found.value).startswith(
        "field f is int in B/1 and text in C/2: HTTPS://HOST/A.CSV?***; convert the field"
    )
    assert (found.value.fields["path"], found.value.fields["other_path"]) == ("B/1", "C/2")


AUDIENCES = [PYTHON, OPTIONS, FILE, Audience(merged="the table")]
CONTROLS = "".join(map(chr, (*range(32), *range(127, 160))))


@pytest.mark.parametrize("audience", AUDIENCES)
def test_a_value_cannot_be_a_part(audience):
    """Neither bytes nor a path or argument that is not UTF-8 can have a mark; all their controls are escaped."""
    data = bytes(range(256)) + b"".join(b"\xed%c%c" % (a, b) for a in range(0xA0, 0xC0) for b in range(0x80, 0xC0))
    for text in (CONTROLS, data.decode("utf-8", "surrogateescape"), data.decode("utf-8", "backslashreplace")):
        fault = error("usage", what=text)
        with pytest.raises(ConfigError), said_to(audience.writers):
            raise fault
        assert str(fault) == "".join(
            c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
        )


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("kind", ["", *"kmoqswx", "s-D ", "s'", "smaster", "x"])
def test_marks_in_a_value_of_python_do_not_end_the_message(kind, audience):
    begin, end = setting("")[0], setting("")[-1]
    for text in (f"{begin}{kind}{end}", f"{begin}{kind}", f"{end}{begin}{kind}{end}{end}", end):
        with pytest.raises(ConfigError) as found, said_to(audience.writers):
            raise error("usage", what=f"a{text}b {setting('sync.mode=full')} c")
        assert str(found.value).isprintable()
        assert str(found.value).endswith(" c")


def test_errors_are_plain_in_python():
    fault = error("usage", what=f"use {setting('sync.mode=full')}")
    copy = pickle.loads(pickle.dumps(fault))
    with pytest.raises(ConfigError) as said, said_to(OPTIONS.writers):
        raise copy
    for one in (fault, said.value, pickle.loads(pickle.dumps(fault))):
        assert (one.args, repr(one)) == (("use sync.mode=full",), "ConfigError('use sync.mode=full')")
        assert one.why == "use sync.mode=full"
    with pytest.raises(ConfigError, match='use sync_mode="full"') as said, said_to(PYTHON.writers):
        raise fault
    assert said.value.args == ('use sync_mode="full"',)


def test_names_of_a_file_stay_in_python():
    names = {"deleted.op.code": "delete_codes"}
    with pytest.raises(ConfigError, match="delete_codes: ") as found, said_to(Audience(names, python=True).writers):
        parse({"key": 0, "order_by": 1, "delete_codes": "D", "delete.when": "not null", "op": 2})
    assert 'delete_when="not null"' in str(found.value)
