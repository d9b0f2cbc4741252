"""Filters of keys: never a false negative, no key stored twice, and a damaged pack stops the run."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset import manifest
from mutator.dataset.filter_packs import KeyFilter, read_filters, read_wanted, write_filters
from mutator.errors import MutatorError, StateError
from mutator.rules.bloom_filter import Sought, filter_of, may_contain
from tests.support.effort import law
from tests.support.partition_trees import put_all, rows_by_directory, run
from tests.support.text_runs import scratch

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=200).map(lambda found: np.array(found, np.uint64))
CONFIG = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "partitioned.by": "shop=2",
    "max.delete.fraction": "1",
    "op.code.field.ordinal": "3",
    "op.code.in.master": "false",
}


@given(HASHES, HASHES)
def test_keys_in_a_filter_are_found(hashes, others):
    words = filter_of(hashes)

    assert may_contain(words, hashes).all()
    assert may_contain(words, np.concatenate([others, hashes]))[len(others) :].all()


def test_few_other_keys_are_found():
    rng = np.random.default_rng(1)
    words = filter_of(rng.integers(0, 2**64, 5000, np.uint64))

    assert may_contain(words, rng.integers(0, 2**64, 200_000, np.uint64)).sum() <= 4


@given(st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=4), st.none() | st.binary(max_size=4), HASHES)))
@law(30)
def test_a_pack_is_read_back(filters):
    written = [KeyFilter(path, low, high, filter_of(hashes)) for path, low, high, hashes in filters]
    stream = io.BytesIO()
    write_filters(stream, written)
    found = list(read_filters(io.BytesIO(stream.getvalue())))

    assert [one[:3] for one in found] == [one[:3] for one in written]
    assert all((one.words == other.words).all() for one, other in zip(found, written, strict=True))


def test_filters_whose_range_of_keys_is_not_wanted_are_not_read():
    written = [KeyFilter(f"{n:02}", b"%02d" % n, b"%02d" % n, filter_of(np.array([n], np.uint64))) for n in range(70)]
    stream = io.BytesIO()
    write_filters(stream, written)
    words = written[1].words.tobytes()  # in another row group than the last filter
    pack = stream.getvalue().replace(words, bytes(len(words)), 1)

    with pytest.raises(OSError, match="CRC"):
        list(read_filters(io.BytesIO(pack)))
    found = list(read_wanted(io.BytesIO(pack), lambda low, high: high > b"68"))
    assert [path for path, _ in found] == [one.path for one in written]
    wanted = [one for _, one in found if one is not None]
    assert [one[:3] for one in wanted] == [written[69][:3]]
    assert (wanted[0].words == written[69].words).all()


class Master:
    """A partitioned master of random records, and a feed that moves some of them."""

    def __init__(self, root: Path, seed: int = 0, count: int = 60, **settings_: str) -> None:
        rng = random.Random(seed)
        self.root, self.settings, self.number = root, {**CONFIG, "input.format": "text", **settings_}, 0
        self.shops = {self.key(rng, number): rng.randrange(5) for number in range(count)}
        rows = b"".join(b"%s,1,%d\n" % item for item in self.shops.items())
        self.path = put_all(root / "master", {"base.txt": rows})
        self.run(None)

    @staticmethod
    def key(rng: random.Random, number: int) -> bytes:
        """Return an ID of any bytes except those of a delimiter or a line end."""
        odd = bytes(byte for byte in rng.randbytes(4) if byte not in b",\r\n\xef")
        return b"%s%d" % (odd, number)

    def run(self, feed: bytes | None) -> Any:
        self.number += 1
        place = put_all(self.root / f"feed{self.number}", {f"ups_{self.number}.txt": feed}) if feed else None
        report = run(self.settings, self.path, place, self.root / f"out{self.number}")
        self.path = report.output
        return report

    def moving(self, rng: random.Random, at: int) -> bytes:
        rows = []
        for key in rng.sample(sorted(self.shops), 20):
            self.shops[key] = rng.randrange(5)
            rows.append(b"%s,%d,%d,U\n" % (key, at, self.shops[key]))
        return b"".join(rows)

    def check(self) -> None:
        found = {
            row.split(b",")[0]: int(directory.removeprefix("shop="))
            for directory, rows in rows_by_directory(Path(self.path)).items()
            for row in rows
        }
        assert sum(map(len, rows_by_directory(Path(self.path)).values())) == len(self.shops)
        assert found == self.shops

    def packs(self) -> list[Path]:
        return sorted(Path(self.path, "_mutator", "filters").iterdir())


@pytest.mark.thorough(keep=0)
@given(st.integers(0, 1 << 30))
@law(5)
def test_records_with_binary_keys_are_found_wherever_they_are(seed):
    rng = random.Random(seed)
    with scratch() as root:
        master = Master(root, seed, **{"bucket.bytes": rng.choice(["1", "30", "1m"])})
        for at in (2, 3, 4):
            report = master.run(master.moving(rng, at))
            assert report.counts["feed updated"] == 20
            master.check()


def test_buckets_double_with_their_partition(tmp_path):
    master = Master(tmp_path, count=4, **{"bucket.bytes": "500"})
    seen: list[int] = []
    for at in range(6):
        rows = b"".join(b"n%d-%d,%d,0,U\n" % (at, number, at + 2) for number in range(5 << at))
        master.shops |= {b"n%d-%d" % (at, number): 0 for number in range(5 << at)}
        master.run(rows)
        master.check()
        document = json.loads(Path(master.path, manifest.PATH).read_bytes())
        [buckets] = {part["buckets"] for part in document["files"] if part["path"].startswith("shop=0/")}
        seen.append(buckets)
        numbers = Counter(part["bucket"] for part in document["files"] if part["path"].startswith("shop=0/"))
        assert set(numbers.values()) == {1}

    assert seen == sorted(seen)
    assert {2, 4, 8} <= set(seen), seen


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("damage", ["missing", "short", "empty", "longer", *range(12)])
def test_a_damaged_pack_stops_the_run(tmp_path, damage):
    """The flipped bytes may lie outside of all pages: then the result is correct."""
    master = Master(tmp_path, seed=1)
    [*_, pack] = master.packs()
    content = pack.read_bytes()
    rng = random.Random(str(damage))
    if damage == "missing":
        pack.unlink()
    else:
        flipped = bytearray(content)
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        made = {"short": content[: len(content) // 2], "empty": b"", "longer": content + b"x"}
        pack.write_bytes(made.get(damage, bytes(flipped)))  # type: ignore[call-overload]
    fault: MutatorError | None = None
    try:
        master.run(master.moving(rng, 2))
    except MutatorError as found:
        fault = found
    if fault is None:
        assert isinstance(damage, int)
        master.check()
    else:
        assert isinstance(fault, StateError), fault
        assert fault.exit_code == 5
        assert pack.name in str(fault)


def test_keys_are_sought_in_filters_of_any_size_and_in_parts() -> None:
    hashes = np.random.default_rng(1).integers(0, 1 << 64, 3000, dtype=np.uint64)
    sought = Sought(hashes)
    for count, begin, end in [
        (3000, 0, 3000),
        (50, 10, 70),
        (50, 0, 3000),
        (3000, 2000, 2001),
        (1, 0, 0),
        (0, 0, 3000),
    ]:
        words = filter_of(hashes[:count])
        expected = np.arange(begin, end) < count
        assert np.array_equal(may_contain(words, hashes[begin:end]), expected)
        assert np.array_equal(sought.may_be_in(words, begin, end), expected)
