"""The tables file: its sections and keys, and all its faults reported at once."""

import pytest

from mutator.errors import MutatorError
from mutator.workflow import many_tables
from mutator.workflow.many_tables.table_paths import TablePaths, clashes
from tests.support.many_tables import DEFAULTS, Folder


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, 2)


def faults(path, overrides=()):
    with pytest.raises(MutatorError) as caught:
        many_tables.load(path, overrides)
    assert caught.value.exit_code == 2
    first, *found = str(caught.value).split("\n  ")
    assert first.endswith("these entries cannot be used:")
    return found


def test_one_fault_of_several_tables_is_one_line(folder):
    """A wrong dialect says nothing of the settings that need one."""
    wrong = 'feed.dialect = "maxwel"\nfeed.table = "s.{table}"\n'
    (line,) = faults(folder.file(defaults=DEFAULTS + wrong))
    names = sorted(folder.names)
    assert line.startswith(f"tables.{names[0]}.settings: feed.dialect: 'maxwel' must be ")
    assert line.endswith(f" (also {names[1]})")


def test_paths_are_relative_to_the_file(folder, monkeypatch):
    monkeypatch.chdir(folder.root.parent)

    found = many_tables.load(f"{folder.root.name}/{folder.file().name}")

    assert [table.master for table in found.tables] == [f"{folder.root.name}/master/{name}" for name in folder.names]
    assert found.record == f"{folder.root.name}/.tables.run"


def test_addresses_and_full_paths_stay(folder):
    more = '[tables.a]\nmaster = "s3://lake/{table}"\nfeed = ["/incr/*", "hdfs://n/x"]\noutput = "/new/{table}"\n'

    table = folder.tables(more).only(["a"])[0]

    assert (table.master, table.feed, table.output) == ("s3://lake/a", ("/incr/*", "hdfs://n/x"), "/new/a")


def test_the_setting_nearest_to_the_table_wins(folder):
    folder.put(
        "all.properties", "rsbm.num.reducer=1\nreject.limit=1\nsplit.bytes=1m\nbackup.keep=1\nid.field.ordinals=0\n"
    )
    folder.put("own.properties", "id.field.ordinals=0\nreject.limit=3\n")
    defaults = """[defaults]
        master = "master/{table}"
        feed = "feed/{table}"
        output = "out/{table}"
        config = "all.properties"
        deadline = "1h"
        [defaults.settings]
        reject.limit = 2
        split.bytes = "2m"
        """
    more = """[tables.t1]
        config = "own.properties"
        deadline = "5m"
        [tables.t1.settings]
        split.bytes = "4m"
        """

    found = many_tables.load(folder.file(more, defaults=defaults), ["rsbm.backup.keep=9"])

    t0, t1 = sorted(found.tables, key=lambda table: table.name)
    assert (t0.config.effort.num_reducer, t0.config.limits.reject_limit, t0.config.effort.split_bytes) == (
        1,
        2,
        2 << 20,
    )
    assert (t1.config.effort.num_reducer, t1.config.limits.reject_limit, t1.config.effort.split_bytes) == (
        None,
        3,
        4 << 20,
    )
    assert (t0.config.workflow.backup_keep, t1.config.workflow.backup_keep) == (9, 9)
    assert (t0.deadline, t1.deadline) == (3600, 300)


def test_run_section(folder):
    found = folder.tables(run='at-once = 3\ndeadline = "30m"\nrecord = "state/run"')

    assert (found.at_once, found.deadline, found.record) == (3, 1800, str(folder.root / "state/run"))


def test_defaults_give_a_base_no_paths(folder):
    (table,) = folder.tables('[tables.b]\nbase = "bases/{table}"\n').only(["b"])

    assert (table.base, table.master, table.feed) == (str(folder.root / "bases/b"), "", ())


def test_all_faults_at_once(folder):
    folder.put("bad.properties", "id.field.ordinal=0\n")
    more = """[tables.a]
        base = "b"
        master = "m"
        fed = "x"
        [tables.b]
        deadline = "soon"
        output = ["x"]
        settings.num.reducer = 0
        settings.sync.mod = "full"
        [tables.c]
        config = "bad.properties"
        settings.id.field.ordinals = ""
        [tables.d]
        config = "none.properties"
        [tables."e,f"]
        [table.x]
        """

    found = faults(folder.file(more, 'at-once = 0\ndeadlin = "1h"'))

    missing = "id.field.ordinals: is missing; name the fields of the record ID, for example 0, 0,2 or id"
    for fault in (
        "table: is not a known section; did you mean tables?",
        "tables.a.fed: is not a known key; did you mean feed?",
        "tables.a.master: is given beside base, which contains it; leave one out",
        "tables.b.deadline: 'soon' must be a duration such as 90d, 12h, 30m or 45s",
        "tables.b.output: '['x']' must be a path, as text",
        "tables.b.settings: num.reducer: '0' must be a whole number from 1 to 999999",
        "tables.b.settings: sync.mod: is not a known setting; did you mean sync.mode?",
        f"tables.c.settings: {missing}",
        "tables.e,f: a name has no comma, brace or control character, and no space at its ends",
        "run.at-once: '0' must be a whole number from 1 to 999999",
        "run.deadlin: is not a known key; did you mean deadline?",
    ):
        assert fault in found
    assert any(one.startswith("tables.d: ") and "none.properties" in one for one in found)


def test_faults_of_the_defaults_are_reported_once(folder):
    found = faults(folder.file(defaults='[defaults]\nfeed = "f"\nsettings = 3\nconfg = "x"\n'))

    assert found.count("defaults.settings: must be a section, [defaults.settings]") == 1
    assert found.count("defaults.confg: is not a known key; did you mean config?") == 1
    assert "tables.t0.master: is missing, and so is base" in found


@pytest.mark.parametrize("text", ["", "[tables]\n", "tables = 3\n", "[tables]\nt = 3\n"])
def test_no_tables(folder, text):
    assert any("tables" in one for one in faults(folder.put("tables.toml", text)))


@pytest.mark.parametrize("text", ["[tables", "a = 1\na = 2\n"])
def test_invalid_toml(folder, text):
    with pytest.raises(MutatorError, match=r"tables\.toml: cannot be read as a configuration: "):
        many_tables.load(folder.put("tables.toml", text))


def test_override_of_the_command_line(folder):
    with pytest.raises(MutatorError, match="expected key=value"):
        many_tables.load(folder.file(), ["nonsense"])
    expected = ["-D num.reducer: 'none' must be a whole number from 1 to 999999"]  # once, not for each table
    assert faults(folder.file(), ["num.reducer=none"]) == expected


def place(name, **places):
    writes = {key: path for key, path in places.items() if key in ("output", "base")}
    return TablePaths(name, writes, {key: path for key, path in places.items() if key not in writes})


A = place("a", master="/m/a", feed=("/f/a",), output="/o/a")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            place("b", output="/o/a"),
            "tables.b.output: is /o/a, the output of table a, too; name another path",
        ),
        (place("b", output="/o/x/../a/"), "tables.b.output: is /o/x/../a/, the output of table a, too"),
        (place("b", output="/o/a/b"), "tables.b.output: /o/a/b and /o/a, the output of table a, overlap"),
        (place("b", base="/o"), "tables.b.base: /o and /o/a, the output of table a, overlap"),
        (place("b", master="/o/a"), "tables.b.master: is /o/a, the output of table a; tables run in any order"),
        (place("b", feed=("/f/b", "/o/a/part-1")), "tables.b.feed: /o/a/part-1 and /o/a, the output of table a"),
        (place("b", feed=("/o/*/part-*",)), "tables.b.feed: /o/*/part-* and /o/a, the output of table a, overlap"),
        (place("b", feed=("/[no]/a",)), "tables.b.feed: /[no]/a and /o/a"),
    ],
)
def test_paths_that_clash(other, message):
    found = clashes([A, other])

    assert any(one.startswith(message) for one in found), found
    assert clashes([other, A])


@pytest.mark.parametrize(
    "other",
    [
        place("b", master="/m/a", feed=("/f/a", "/f/*"), output="/o/b"),
        place("b", master="/o/ab", feed=("/o/b*",), output="/o/a2"),
        place("b", base="/b"),
        place("b", master="s3://o/a", output="s3://o/a2"),
    ],
)
def test_paths_that_do_not_clash(other):
    assert clashes([A, other]) == clashes([other, A]) == []


def test_links_to_one_directory_clash(tmp_path):
    (tmp_path / "o").mkdir()
    (tmp_path / "link").symlink_to("o")

    assert clashes([place("a", output=f"{tmp_path}/o/a"), place("b", output=f"{tmp_path}/link/a")])


def test_clashing_file(folder):
    found = faults(folder.file('[tables.t0]\noutput = "out/t1"\n'))

    assert found == [f"tables.t1.output: is {folder.root}/out/t1, the output of table t0, too; name another path"]
