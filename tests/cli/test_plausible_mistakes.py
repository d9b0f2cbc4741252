"""Mistakes on a command line: the message blames the right one at once."""

import re
import shlex

import pytest

from mutator.cli import job as job_of
from mutator.cli import main
from mutator.errors import ConfigError, DataError
from tests.support.job import BY_NAME, CONFIG, Job

SETTINGS = (
    b"id.field.ordinals=0\ntemporal.ordering.field.ordinal=2\ntemporal.ordering.field.numeric=true\nfield.count=3\n"
)


# --- the words themselves

RUN = "run --master m --feed f --output o"
OF_WORDS = {
    # misspelled, shortened, of another command
    "run --outptu o": "there is no option --outptu; did you mean --output?",
    "run --order_by ts": "there is no option --order_by; did you mean --order-by?",
    "run --o x": "there is no option --o; did you mean --order-by, --order-type, --op or --output?",
    "run --eng=records": "there is no option --eng; did you mean --engine?",
    "run -e records": "there is no option -e; did you mean --engine?",
    "table scan t --js": "there is no option --js; did you mean --json?",
    "verify --feed f": "there is no option --feed; it is an option of mutator init and 9 other commands",
    "changes --order-by ts": "there is no option --order-by; it is an option of mutator init and 19 other commands",
    "run --bookmark b": "there is no option --bookmark; it is an option of mutator table changes",
    "run --by day": "there is no option --by; did you mean --partitioned-by?",
    "run --to o": "there is no option --to; did you mean --output?",
    "partition --to": "--to needs a value: --to DIR",
    "run —key id": "there is no option —key; did you mean --key?",
    "run -key id": "there is no option -key; did you mean --key?",
    "run --Delete_Codes D": "there is no option --Delete_Codes; did you mean --delete-codes?",
    "help --key": "there is no option --key; it is an option of mutator init and 19 other commands",
    "-V": "there is no option -V; did you mean --version or --verbose?",
    "run --frobnicate": "there is no option --frobnicate",
    "--verb verify x": "there is no option --verb; did you mean --verbose?",
    "--config a.toml run": "there is no option --config before the command; write it after it: mutator run --config",
    "--key id run": "there is no option --key before the command; write it after it: mutator run --key",
    "--op op table apply t": "there is no option --op before the command; write it after it: mutator table apply --op",
    "workflow --key id run b": (
        "there is no option --key before the command; write it after it: mutator workflow run --key"
    ),
    "--key id": "there is no option --key before the command; write it after it: mutator init --key",
    # settings
    "run --id.field.ordinals 0": "there is no option --id.field.ordinals; did you mean --key?",
    "run --num-reducer 8": "there is no option --num-reducer; did you mean -D num.reducer=VALUE?",
    "run --rsbm.sync.mode=full": "there is no option --rsbm.sync.mode; did you mean -D sync.mode=VALUE?",
    "run --partitioned.by=day": "there is no option --partitioned.by; did you mean --partitioned-by?",
    "run --default.price 0": "there is no option --default.price; did you mean -D default.price=VALUE?",
    f"{RUN} -D num.reducer 8": "-D: 'num.reducer' is not KEY=VALUE; write -D num.reducer=VALUE, without blanks",
    f"{RUN} -D order_by = ts": "-D: 'order_by' is not KEY=VALUE; write -D order_by=VALUE, without blanks",
    f"{RUN} -D =8": "-D: '=8' is not KEY=VALUE; write -D KEY=VALUE, such as -D num.reducer=8",
    f"{RUN} -D": "-D needs a value: -D KEY=VALUE",
    # values
    "run --feed": "--feed needs a value: --feed PATH",
    "run --feed --output o": "--feed needs a value: --feed PATH",
    "init -o": "-o needs a value: -o FILE",
    "run --order-by -x": "there is no option -x; if it is the value of --order-by, write --order-by=-x",
    "run --engine block": "--engine: 'block' is not one of auto, blocks, records; did you mean blocks?",
    "run --json=true": "--json takes no value; leave out =true",
    "changes b --from x": "--from: 'x' must be a whole number",
    "workflow watch b --interval 1e9": "--interval: '1e9' must be a duration from 0s to 11d",
    "workflow watch b --interval nan": "--interval: 'nan' must be a duration from 0s to 11d",
    "workflow watch b --min-age 5x": "--min-age: '5x' must be a duration such as 0.5s, 45s, 30m or 7d",
    "table scan t --limit -5": "--limit: '-5' must be a whole number, 0 or more",
    "sample new many": "ROWS: 'many' must be a whole number",
    "run --master= --feed f": "--master: the path is empty",
    r"run --feed 'C:\data\feed'": r"--feed: C:\data\feed is a path of Windows; in WSL it is /mnt/c/data/feed",
    "run --feed \"'f/*.csv'\"": "--feed: 'f/*.csv' has quotes within the path; leave out one pair of quotes",
    "run --feed '~/f'": "--feed: ~/f: a shell does not expand ~ within quotes; write $HOME/f",
    # too few, too many
    "run m f o": "--master DIR, --feed PATH and --output DIR are missing; no option is before 'm', 'f' and 'o'",
    "run --master m --output o f": "--feed PATH is missing; write --feed before 'f'",
    "verify": "DIR is missing",
    "completion": "SHELL is missing",
    "table changes t": "--from A or --bookmark NAME is missing",
    "verify a b": "unexpected 'b'; leave it out",
    f"{RUN} --key a b": "unexpected 'b'; --key takes one value; put a value with blanks in quotes",
    f"{RUN} --key a --key b": "--key is given twice; give it once",
    "workflow run b --engine auto --engine=blocks": "--engine is given twice; give it once",
    "init -o a --output=b": "--output is given twice; give it once",
    "table changes t --from 1 --bookmark b": "--from and --bookmark exclude each other; give one of them",
    # commands
    "rnu": "there is no command rnu; did you mean run?",
    "-v verfy x": "there is no command verfy; did you mean verify?",
    "apply t": "there is no command apply; did you mean mutator table apply?",
    "aply t": "there is no command aply; did you mean apply?",
    "restore b": "there is no command restore; did you mean mutator workflow restore or mutator table restore?",
    "workflow stat b": "there is no command stat; did you mean status?",
    "table verfy t": "there is no command verfy; did you mean verify?",
    "table partition": "there is no command partition; did you mean mutator partition?",
    "Run": "there is no command Run; did you mean run?",
    "table_apply t": "there is no command table_apply; did you mean mutator table apply?",
    "version": "there is no command version; did you mean mutator --version?",
    "help rnu": "there is no command rnu; did you mean run?",
    "bridge xyz": "there is no command xyz; the commands are export, import, run",
}


@pytest.mark.parametrize("words", OF_WORDS)
def test_words_that_make_no_command(words, capsys):
    """One line names each option as it was written, and the command that helps; no usage precedes it."""
    assert main(shlex.split(words)) == 2

    out, err = capsys.readouterr()
    [program] = re.findall(r"^(mutator[ a-z-]*): error: ", err)
    assert (out, err) == ("", f"{program}: error: {OF_WORDS[words]} ({program} --help)\n")


def test_words_that_make_no_job(capsys):
    assert job_of("bulk_mutate.py", ["--master", "m", "--outptu", "x"]) == 2
    message = "there is no option --outptu; did you mean --output? (bulk_mutate.py --help)"
    assert capsys.readouterr().err == f"bulk_mutate.py: error: {message}\n"


PUBLISHED = "-D temporal.ordering.field.type=long"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("", "--key: is missing;"),
        ("--key=", "--key: is missing;"),
        ("-D split.bytes=64m", "--key: is missing;"),
        ("--config c.toml", "key: is missing;"),
        ("-D order_by=ts", "key: is missing;"),
        ("-D temporal.ordering.field.ordinal=ts", "id.field.ordinals: is missing;"),
        ("--key=id --order-type=long", "--order-type: 'long', but --order-by is not set"),
        ("-D key=id -D order_type=long", "-D order_type: 'long', but order_by is not set"),
        (f"-D id.field.ordinals=id {PUBLISHED}", f"{PUBLISHED[:-5]}: 'long', but temporal.ordering.field.ordinal is"),
    ],
)
def test_a_fault_names_settings_as_the_user_does(words, fault, tmp_path, monkeypatch, capsys):
    """Short names, of options where there is no file; published ones for those who use them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.toml").write_text("")
    assert main([*shlex.split(RUN), *shlex.split(words)]) == 2
    assert f"\n  {fault}" in capsys.readouterr().err


# --- settings, files and rows


@pytest.fixture
def run(tmp_path, capsys):
    """Return a function that runs with a configuration file and other words, and returns the exit code and stderr."""
    job = Job(tmp_path)
    job.put("ups_1.txt")
    (tmp_path / "c.properties").write_bytes(SETTINGS)
    words = ["run", "--config", str(tmp_path / "c.properties"), "--master", str(job.master), "--feed", str(job.feed)]

    def call(*more):
        code = main([*words, "--output", str(job.output), *more])
        return code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("field.count=2", "temporal.ordering.field.ordinal: field 2 is beyond -D field.count = 2"),
        ("rsbm.field.count=2", "temporal.ordering.field.ordinal: field 2 is beyond -D field.count = 2"),
        ("op.code.field.ordinal=0", "-D op.code.field.ordinal: field 0 is also a field of id.field.ordinals"),
    ],
)
def test_a_fault_that_an_override_makes(run, override, fault):
    code, err = run("-D", override)

    assert (code, err) == (2, f"mutator: error: the command line: these settings cannot be used:\n  {fault}\n")


def test_a_fault_of_the_file_beside_one_of_an_override(run, tmp_path):
    (tmp_path / "c.properties").write_bytes(SETTINGS + b"split.bytes=x\n")
    code, err = run("-D", "num.reducer=x")

    assert code == 2
    assert err.splitlines() == [
        f"mutator: error: {tmp_path}/c.properties: these settings cannot be used:",
        "  -D num.reducer: 'x' must be a whole number from 1 to 999999",
        "  split.bytes: 'x' must be a size such as 67108864, 64m or 1g",
    ]


def test_an_order_type_overrides_the_older_setting_of_a_file(run):
    assert run("-D", "temporal.ordering.field.type=string")[0] == 0


@pytest.mark.parametrize("given", ["none", "s/one", "file:///no/such/place"])
def test_verify_of_nothing(tmp_path, capsys, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    path = given.removeprefix("file://") if ":" in given else str(tmp_path / given)
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *_, **__: pytest.fail("it starts a program"))

    assert main(["verify", given]) == 2
    assert capsys.readouterr().err == f"mutator: error: {path}: there is no such directory; check the path\n"


@pytest.mark.parametrize(
    ("given", "why"),
    [("foo://lake/one", "'foo' is not a known storage scheme"), ("http://127.0.0.1:1/one", "can only be read")],
)
def test_verify_of_other_schemes(capsys, given, why):
    assert main(["verify", given]) == 2
    assert why in capsys.readouterr().err


# --- delete files


@pytest.mark.parametrize(
    "others",
    [[], ["ups_2.txt"], ["delivery_2.txt"], ["del_2.txt"], ["delProd_2.txt", "ups_3.txt"], ["deletes_2.txt"]],
)
def test_a_delete_prefix_that_begins_other_words(job, others):
    for name in ("delta_1.txt", *others):
        job.put(name)
    shown = ", ".join(sorted(name for name in ("delta_1.txt", *others) if name.startswith(("delta", "delivery"))))

    settings = {**CONFIG, "deleted.record.file.prefix": "del", "max.delete.fraction": "1"}
    found = [
        line
        for line in job.run(settings, dry_run=True).warnings
        if line.startswith(f"{shown}: all rows are read as deletes")
    ]
    assert len(found) == 1


def test_a_delete_prefix_that_is_the_whole_word(job):
    job.put("delta_1.txt")
    settings = {**CONFIG, "deleted.record.file.prefix": "delta", "max.delete.fraction": "1"}
    assert "read as deletes" not in "".join(job.run(settings).warnings)


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("del_prod_1.txt", "prefix=del"),
        ("del_20260131T1015Z.txt", "prefix=del"),
        ("DELETE-1.txt", "prefix=DELETE"),
        ("deleted.2.txt", "prefix=deleted"),
        ("Remove7.txt", "prefix=Remove"),
        ("orders_deletes.csv", r"pattern=_deletes\."),
        ("products_del_7.csv", "pattern=_del_"),
        ("20260201_deletes.txt", r"pattern=_deletes\."),
        ("products-deleted.txt", r"pattern=\-deleted\."),
        ("prodDeleted_3.txt", "pattern=dDeleted_"),
        ("orders_tombstones.txt", r"pattern=_tombstones\."),
        ("erased_7.txt", "prefix=erased"),
    ],
)
def test_names_of_deletes_without_a_setting(job, name, setting):
    job.put(name, b"a,1,200\n")
    job.put("ups_prod_1.txt")
    key, _, value = setting.partition("=")
    gone = {f"deleted.record.file.{key}": "gone"}
    cure = f"use -D 'deleted.record.file.{setting}', or, if they are upserts, -D deleted.record.file.pattern=none"

    known = "no setting says that they contain deletes"
    message = f"{name}: named like deletes, but {known}, so their rows would be upserts; {cure}"
    assert job.refused(DataError, settings=CONFIG) == message
    pattern = f"^{value}(?![A-Za-z])" if key == "prefix" else f"gone|{value}"
    cure = f"use -D 'deleted.record.file.pattern={pattern}', or, if they are upserts, rename the files"
    job.refused(DataError, f"but deleted.record.file.{key} is gone, so", cure, settings={**CONFIG, **gone})
    named = {**CONFIG, f"deleted.record.file.{key}": value, "max.delete.fraction": "1"}
    assert job.run(named, output=str(job.root / "deleted")).counts["feed deleted"] == 1
    assert job.run({**CONFIG, "deleted.record.file.pattern": "none"}).counts["feed deleted"] == 0


@pytest.mark.parametrize("directory", ["deletes", "op=delete", "removed", "erased", "orders_tombstone"])
def test_a_directory_of_deletes_without_a_setting(job, directory):
    """Its name says as much as that of a file, and the cure is one."""
    place = job.root / directory
    place.mkdir()
    (place / "f_1.txt").write_bytes(b"a,1,200\n")
    job.put("ups_prod_1.txt")
    feed = [str(place), str(job.feed)]
    says = "use names such as deletes_f_1.txt and -D 'deleted.record.file.prefix=deletes'"
    job.refused(DataError, f"{directory}/f_1.txt: named like deletes", says, feed=feed)
    (place / "f_1.txt").rename(place / "deletes_f_1.txt")
    settings = {**CONFIG, "deleted.record.file.prefix": "deletes", "max.delete.fraction": "1"}
    assert job.run(settings, feed=feed).counts["feed deleted"] == 1


@pytest.mark.parametrize("directory", ["status=deleted", "del_rio", "no_deletes", "duplicates_removed"])
def test_other_directories(job, directory):
    (job.root / directory).mkdir()
    (job.root / directory / "f_1.txt").write_bytes(b"a,1,200\n")
    assert job.run(CONFIG, feed=[str(job.root / directory)]).counts["feed rows"] == 1


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("delaware_1.txt", {}),
        ("del_rio_7.txt", {}),
        ("del_rio_7.txt", {"deleted.record.file.prefix": "gone"}),
        ("del-monte.txt", {"deleted.record.file.prefix": "gone"}),
        ("delaware_1.txt", {"deleted.record.file.prefix": "gone"}),
        ("del_1.txt", {"deleted.record.file.prefix": "d"}),
        ("del_1.txt", {"sync.mode": "full", "max.delete.fraction": "1"}),
    ],
)
def test_names_that_are_right(job, name, settings):
    job.put(name, b"a,1,200\n")

    assert job.run({**CONFIG, **settings}).warnings == ()


@pytest.mark.parametrize("in_master", [True, False])
def test_a_delete_file_of_a_table_that_is_known(job, in_master):
    if in_master:
        job.put("base_prod.txt", b"x,1,100\n", "master")
    else:
        job.put("ups_prod_1.txt")
        job.follow()
    job.add("del_prod_2.txt", b"a,1,300\n")
    job.add("del_rio_2.txt", b"b,1,300\n")

    job.refused(DataError, "del_prod_2.txt: named", settings={**CONFIG, "deleted.record.file.prefix": "gone"})


# --- nothing to merge


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_a_feed_without_rows(job, content):
    job.put("ups_1.txt", content)
    job.put("ups_2.txt", b"")

    assert job.run(BY_NAME).warnings == (
        "no row in ups_1.txt, ups_2.txt: the feed counts as merged, and no record changes",
    )


def test_a_master_that_is_not_there(job):
    (job.master / "base.txt").unlink()
    job.put("ups_1.txt")

    job.refused(ConfigError, f"{job.master}: the master has no data files; check that it is the right directory")


def test_the_cure_for_names_of_deletes_covers_no_other_file(job):
    for name in ("del_7.txt", "orders_deletes_8.txt", "models_9.txt", "delta_1.txt"):
        job.put(name, b"a,1,200\n")
    message = job.refused(DataError, "del_7.txt", "orders_deletes_8.txt", settings=CONFIG)
    pattern = re.search(r"-D 'deleted\.record\.file\.pattern=(.*?)'", message)[1]
    report = job.run({**CONFIG, "deleted.record.file.pattern": pattern, "max.delete.fraction": "1"})
    assert report.counts["feed updated"] + report.counts["feed deleted"] == 1
    names = ["del_7.txt", "orders_deletes_8.txt", "models_9.txt", "delta_1.txt"]
    assert [bool(re.search(pattern, name)) for name in names] == [True, True, False, False]
