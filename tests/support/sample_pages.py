"""A sample whose page has everything: all outcomes, ties, late rows, rejects that are no text, partitions, warnings."""

from __future__ import annotations

import random
from pathlib import Path

import mutator
from mutator.pipeline.reports.base_report import BaseReport
from mutator.pipeline.version_point import VersionPoint

_SHOPS = ("Bergen", "Cork", "Lyon", "Porto", "Turin")
_BAD = (
    b"P0001,Bergen,7",
    b"P0002,B\xff\xe9rgen,3,4.00,soon,U",
    b"P0009,<script>alert(1)</script>,1,2.00,x\x00,U",
    b"P0011,Cork,12,3.50,2026-03-12,U",
)


def write_sample(place: Path) -> None:
    """Write master/ and incr/: prices of products in shops, by ID, with a change number and an op code in the feed."""
    draw = random.Random(4)
    rows = [_row(draw, number, draw.randint(1000, 1500)) for number in range(4000)]
    (place / "master").mkdir(parents=True)
    (place / "incr").mkdir()
    for number, part in enumerate((rows[:2000], rows[2000:])):
        (place / "master" / f"part-{number}.txt").write_text("\n".join(part) + "\n")
    for name, count, late, bad, old in (("0311", 420, 37, 0, 25), ("0312", 260, 0, 9, 0), ("0313", 90, 0, 3, 10)):
        changed = [_row(draw, draw.randint(0, 4400), draw.randint(1500, 1800)) for _ in range(count)]
        changed += [_row(draw, draw.randint(0, 3999), draw.randint(900, 999)) for _ in range(late)]
        lines = [f"{row},{draw.choice('UUUUUUD')}".encode() for row in changed]
        lines += [f"{row},U".encode() for row in draw.sample(rows, old)]
        for _ in range(bad):
            lines.insert(draw.randint(0, len(lines)), draw.choice(_BAD))
        (place / "incr" / f"prices_{name}.csv").write_bytes(b"\n".join(lines) + b"\n")


SETTINGS = {
    "key": "0",
    "order_by": "4",
    "op": "5",
    "delimiter": ",",
    "partitioned_by": "1",
    "reject_policy": "quarantine",
    "field_count": "6",
    "field_names": "product,shop,stock,price,change,op",
    "feed_format": "text",
    "changes": "true",
}


def merged_sample(place: Path) -> mutator.Report:
    """Write the sample, and merge it twice, so that the second merge meets partitions."""
    write_sample(place)
    first = mutator.merge(
        master=place / "master", feed=place / "incr" / "prices_0311.csv", output=place / "1", **SETTINGS
    )
    feed = place / "incr"
    return mutator.merge(master=first.output, feed=feed, output=place / "2", consumed_files="merge", **SETTINGS)


def base_sample() -> BaseReport:
    """Return the report of a base that has merged some feed files a day for weeks, and has a few problems."""
    draw = random.Random(9)
    points, rows, at = [], 41_000, 1_790_000_000.0
    for number in range(1, 64):
        at += draw.uniform(40_000, 100_000)
        outcomes = {
            "inserted": draw.randint(100, 400),
            "updated": draw.randint(800, 2600),
            "deleted": draw.randint(20, 260),
        }
        outcomes |= {"no-op": draw.randint(0, 90), "superseded": draw.randint(0, 300)}
        outcomes |= {"late": draw.choice([0, 0, 0, 4, 31, 160]), "rejected": draw.choice([0, 0, 0, 0, 2, 17])}
        rows += outcomes["inserted"] - outcomes["deleted"]
        lag = draw.uniform(60, 900) * draw.choice([1, 1, 1, 1, 12])
        points.append(
            VersionPoint(
                number=number,
                kind="run" if number != 40 else "restore",
                run=f"20261001T{number:06d}Z-0a1b2c3d",
                committed=at,
                rows=rows,
                bytes=rows * 44 if number > 57 else None,
                counts={f"feed {name}": count for name, count in outcomes.items()} if number != 40 else {},
                files=draw.randint(1, 6) if number != 40 else 0,
                feed_bytes=sum(outcomes.values()) * 41 if number != 40 else 0,
                lag=lag if number != 40 else None,
                shortest_lag=lag / 3 if number != 40 else None,
            )
        )
    return BaseReport(
        base="/data/prices",
        table=None,
        taken=at + 5_000,
        running=None,
        versions=points,
        count=63,
        ready=("prices_1107.csv",),
        waiting=(
            ("prices_1106.csv.tmp", "is being written: its name ends in .tmp"),
            ("prices_1105.csv", "has no ready marker prices_1105.csv.ok"),
        ),
        problems=("incr/prices_1101.csv: cannot be moved: Permission denied",),
    )


def _row(draw: random.Random, number: int, change: int) -> str:
    price = f"{draw.randint(1, 99)}.{draw.randint(0, 99):02d}"
    return f"P{number:04d},{draw.choice(_SHOPS)},{draw.randint(1, 200)},{price},{change}"
