"""The sets of ``sample_data/``, merged with their own configurations, then used as masters of further feeds.

The expected result comes from the dict model in ``tests/support/sample_sets.py``, which reads the same files.
"""

import json
import re
import shutil

import pytest

from mutator.cli import main
from tests.support.sample_sets import README, SAMPLE_DATA, SAMPLES, merge, read_sample

COLUMNS = {
    "master rows": "master rows",
    "feed rows": "feed rows",
    "inserted": "feed inserted",
    "updated": "feed updated",
    "deleted": "feed deleted",
    "delete of unknown": "feed delete of unknown",
    "superseded": "feed superseded",
    "final rows": "output rows",
}
NOTHING = ("feed late", "feed rejected", "master rejected", "master duplicate", "tied", "feed no-op", "feed ignored")
GENERATED = {  # the options of `mutator sample`, and the names of the next feed files
    "product": ([], "ups_more.txt", "del_more.txt"),
    "product_op_code": (["--op-code"], "ups_more.txt", "del_more.txt"),
    "product_sequence": ([], "ups_prod_1427775480.txt", "del_prod_1427779080.txt"),
    "sales": (["--table", "sales"], "ups_more.txt", "del_more.txt"),
}

every_sample = pytest.mark.parametrize("name", SAMPLES)


def readme_counts(name):
    """Return the row of the README's table as {count: number}."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in README.splitlines() if line[:1] == "|"]
    [head] = [line for line in lines if line[:2] == ["folder", "master rows"]]
    [row] = [line for line in lines if line[0] == f"`{name}`" and len(line) == len(head)]
    return {COLUMNS[title]: int(number) for title, number in zip(head[1:], row[1:], strict=True)}


@pytest.fixture
def command(capfdbinary):
    """Run a command; return its output."""

    def run(*words):
        code = main([str(word) for word in words])
        out, err = capfdbinary.readouterr()
        assert code == 0, err.decode()
        return out

    return run


@pytest.fixture
def mutate(command):
    """Merge, check the result against its manifest, and return the report."""

    def run(config, master, feed, output, *more):
        feeds = [word for path in feed for word in ("--feed", path)]
        words = ["--config", config, "--master", master, *feeds, "--output", output, "--json", *more]
        report = json.loads(command("run", *words))
        if not report["dry_run"]:
            assert b"as its manifest says" in command("verify", output)
        return report

    return run


def rows(directory):
    return sorted(row for path in directory.glob("part-*") for row in path.read_bytes().split(b"\n")[:-1])


def config_of(name):
    [path] = (SAMPLE_DATA / name).glob("*.properties")
    return path


def expected(name, *feeds):
    """Return the expected rows for the master and all feeds so far, from the dict model."""
    master, mutations = read_sample(name, *SAMPLES[name])
    for feed in feeds:
        mutations += read_feed(name, feed)
    return sorted(merge(master, mutations).values())


def read_feed(name, directory):
    width, order_of = SAMPLES[name]
    found = []
    for path in sorted(directory.iterdir()):
        for row in path.read_bytes().splitlines():
            fields = row.split(b",")
            coded = name == "product_op_code"
            gone = fields[4] == b"D" if coded else path.name.startswith("del")
            found.append((tuple(fields[:width]), order_of(path, row), gone, cut(row) if coded else row))
    return found


def cut(row):
    fields = row.split(b",")
    return b",".join(fields[:4] + fields[5:])


@pytest.fixture
def merged(tmp_path, mutate):
    """Merge a sample set; return (report, output)."""

    def run(name):
        sample = SAMPLE_DATA / name
        report = mutate(config_of(name), sample / "master", [sample / "feed"], tmp_path / "out")
        return report, tmp_path / "out"

    return run


def test_every_folder_is_a_sample():
    folders = {path.name for path in SAMPLE_DATA.iterdir() if path.is_dir()}
    assert folders - {"sales_table"} == set(SAMPLES) == set(GENERATED)  # that is in tests/table/test_sales_example.py


@every_sample
def test_numbers_of_the_readme(merged, name):
    report, output = merged(name)

    counts = readme_counts(name)
    assert {title: report["counts"][title] for title in counts} == counts
    assert {title: report["counts"][title] for title in NOTHING} == dict.fromkeys(NOTHING, 0)
    assert report["counts"]["inserted and deleted"] == counts["feed delete of unknown"]
    assert report["counts"]["tombstones out"] == counts["feed deleted"] + counts["feed delete of unknown"]
    assert rows(output) == expected(name)
    assert report["warnings"] == []


def test_stories_of_the_readme(merged, tmp_path, mutate):
    _, product = merged("product")
    [row] = [row for row in rows(product) if row.startswith(b"VR8NCNE7DV,")]
    assert row.split(b",")[4] == b"82"

    sample = SAMPLE_DATA / "product_sequence"
    mutate(config_of("product_sequence"), sample / "master", [sample / "feed"], tmp_path / "sequence")
    [row] = [row for row in rows(tmp_path / "sequence") if row.startswith(b"Q5D0MZ2K7X,")]
    assert row.split(b",")[4] == b"100"
    names = sorted(path.name for path in (tmp_path / "sequence").glob("part-*"))
    assert all(re.fullmatch(r"part-\d{5}-.*_1427\d{6}\.txt", name) for name in names)


@pytest.mark.thorough(keep=1)
@every_sample
def test_same_feed_again(merged, mutate, tmp_path, name):
    first, output = merged(name)
    before = rows(output)
    feed = SAMPLE_DATA / name / "feed"

    skipped = mutate(config_of(name), output, [feed], tmp_path / "skipped")
    assert sorted(skipped["consumed"]) == sorted(map(str, feed.iterdir()))
    assert (skipped["counts"]["feed rows"], skipped["counts"]["master kept"]) == (0, len(before))
    assert rows(tmp_path / "skipped") == before

    again = mutate(config_of(name), tmp_path / "skipped", [feed], tmp_path / "again", "-Dconsumed.files=merge")
    counts = again["counts"]
    changed = ("feed inserted", "feed updated", "feed deleted", "feed delete of unknown", "feed rejected")
    assert {title: counts[title] for title in changed} == dict.fromkeys(changed, 0)
    assert counts["feed no-op"] + counts["feed superseded"] == counts["feed rows"] == first["counts"]["feed rows"]
    assert counts["tombstones out"] == first["counts"]["tombstones out"]
    assert rows(tmp_path / "again") == before


@pytest.mark.thorough(keep=1)
@every_sample
def test_output_is_the_master_of_the_next_feed(merged, mutate, command, tmp_path, name):
    report, output = merged(name)
    options, ups, dels = GENERATED[name]
    feed = tmp_path / "feed"
    feed.mkdir()
    masters = [word for path in output.glob("part-*") for word in ("--master", path)]
    (feed / ups).write_bytes(command("sample", "upsert", 40, "--seed", 101, *options, *masters))
    plain = tmp_path / "plain.txt"  # with the content that the master will have
    plain.write_bytes(
        b"".join(cut(row) + b"\n" for row in (feed / ups).read_bytes().splitlines())
        if "--op-code" in options
        else (feed / ups).read_bytes()
    )
    deletes = command("sample", "delete", 25, "--seed", 102, *options, *masters, "--master", plain)
    (feed / dels).write_bytes(deletes)
    if name == "product_op_code":  # each file has rows of both kinds
        both = sorted((feed / ups).read_bytes().splitlines() + deletes.splitlines())
        for path, part in ((feed / ups, both[::2]), (feed / dels, both[1::2])):
            path.write_bytes(b"".join(row + b"\n" for row in part))

    dry = mutate(config_of(name), output, [feed], tmp_path / "next", "--dry-run")
    following = mutate(config_of(name), output, [feed, SAMPLE_DATA / name / "feed"], tmp_path / "next")

    counts = following["counts"]
    assert rows(tmp_path / "next") == expected(name, feed)
    assert dry["counts"] == counts  # consumed files do not count again
    assert len(following["consumed"]) == len(list((SAMPLE_DATA / name / "feed").iterdir()))
    assert (counts["feed rows"], counts["feed late"], counts["tied"]) == (65, 0, 0)
    assert counts["feed updated"] + counts["feed inserted"] + counts["feed superseded"] == 40
    assert counts["feed deleted"] + counts["feed delete of unknown"] == 25
    assert counts["tombstones in"] == report["counts"]["tombstones out"]
    assert counts["tombstones out"] == counts["tombstones in"] + 25 - counts["revived"]


def test_late_file_of_the_sequence_sample(merged, mutate, tmp_path):
    """A file whose sequence lies between the third and the fourth arrives last: newer than some records, older than
    others.
    """
    _, output = merged("product_sequence")
    before = {row.split(b",")[0]: row for row in rows(output)}
    master, mutations = read_sample("product_sequence", *SAMPLES["product_sequence"])
    newest = {}
    for key, sequence, gone, _ in sorted(mutations, key=lambda mutation: mutation[1]):
        newest[key] = sequence, gone
    at = 1427768280 + 60
    untouched = sorted(key for key in master if key not in newest)[:3]
    older = sorted(key for key, (sequence, gone) in newest.items() if sequence < at and not gone)[:3]
    buried = sorted(key for key, (sequence, gone) in newest.items() if sequence < at and gone)[:3]
    newer = sorted(key for key, (sequence, _) in newest.items() if sequence > at)[:3]
    late = {key[0]: key[0] + b",tablet,samsung,1,1,1" for key in (*untouched, *older, *buried, *newer)}
    assert len(late) == 12
    feed = tmp_path / "late"
    feed.mkdir()
    (feed / f"ups_prod_{at}.txt").write_bytes(b"".join(row + b"\n" for row in late.values()))

    report = mutate(config_of("product_sequence"), output, [feed], tmp_path / "next")

    after = {row.split(b",")[0]: row for row in rows(tmp_path / "next")}
    kept = {key[0] for key in newer}
    assert after == before | {key: row for key, row in late.items() if key not in kept}
    assert rows(tmp_path / "next") == expected("product_sequence", feed)
    counts = report["counts"]
    outcomes = (counts["feed updated"], counts["feed inserted"], counts["revived"], counts["feed late"])
    assert outcomes == (6, 3, 3, 3)


@pytest.mark.thorough(keep=1)
@every_sample
def test_one_run_per_feed_file_gives_the_same(merged, mutate, tmp_path, name):
    """Merge one file after the other, each into the output of the run before; in another order, the last file comes
    first.
    """
    _, output = merged(name)
    master = SAMPLE_DATA / name / "master"
    for number, path in enumerate(sorted((SAMPLE_DATA / name / "feed").iterdir(), reverse=True)):
        step = tmp_path / f"step {number}"
        mutate(config_of(name), master, [path], step)
        master = step

    assert rows(master) == rows(output)


def test_a_copy_of_the_output_is_as_good(merged, mutate, tmp_path):
    _, output = merged("sales")
    shutil.copytree(output, tmp_path / "copy")

    report = mutate(config_of("sales"), tmp_path / "copy", [SAMPLE_DATA / "sales" / "feed"], tmp_path / "next")

    assert len(report["consumed"]) == 2
    assert rows(tmp_path / "next") == rows(output)
