"""Sequences in names of files: where a pattern finds them, and which names contradict the last number."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from mutator.rules.file_sequences import contradiction, parse_pattern, preset_of

START = datetime(2026, 12, 30, 22, 15, tzinfo=UTC)
CLOCK = r"(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)"
YEAR, MONTH, DAY = r"(?P<year>(?:19|20|21)\d\d)", r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>0[1-9]|[12]\d|3[01])"
TIME, END = r"(?P<hour>[01]\d|2[0-3])[-_]?(?P<minute>[0-5]\d)", r"(?=\.|$)"
FORMS = {  # how a producer names its file number n of a day or an hour -> the pattern that must be proposed
    "{t:%Y_%m_%d}_{ms}_{rest}.txt": r"(?<!\d)(?P<number>1\d{12})(?!\d)",
    "{s}_{rest}.csv": r"(?<!\d)(?P<number>1\d{9})(?!\d)",
    "orders_{t:%Y%m%d}_{hour}.csv.gz": "date",
    "orders-{t:%Y-%m-%d}_{hour}.parquet": "date",
    "o_{t:%Y%m%dT%H%M}_{rest}.avro": "date",
    "o_{t:%Y%m%d}_{hour}059.csv": "date",
    "o_{t:%Y%m%d}_part-{hour:05}.csv": "date",
    "o_{t:%Y%m%d}_{t:%H%M%S}.csv": "date",
    "orders_{t:%d%m%Y}{t:%H%M%S}.txt": r"_(?P<day>\d\d)(?P<month>\d\d)(?P<year>\d{4})" + CLOCK,
    "o_{t:%Y_%m_%d_%H_%M_%S}.txt": rf"(?<!\d){YEAR}[-_.]?{MONTH}[-_.]?{DAY}[-_T]{TIME}_(?P<second>[0-5]\d){END}",
    "o_{t:%Y%m}_{of_month}.csv.gz": rf"(?<!\d){YEAR}[-_.]?{MONTH}(?!\d)[^\d]*_(?P<number>\d+){END}",
    "o_{t:%y%m%d}_{hour}.csv": rf"(?<!\d)(?P<year>1[5-9]|[23]\d){MONTH}{DAY}(?!\d)[^\d]*_(?P<number>\d+){END}",
    "o_{t:%Y}_{of_month}.csv": rf"(?<!\d)(?P<year>20[1-3]\d)(?!\d)[^\d]*_(?P<number>\d+){END}",
    "LOAD{n:08X}.csv": "dms",
    "{t:%Y%m%d-%H%M%S}{n:03}.csv": "dms",
    "orders+3+{n:010}.json": "connect-offset",
}
DAILY = {  # how a producer names its file of a day -> the pattern; None: it must ask
    "o_{t:%Y_%m_%d}.txt": rf"(?<!\d){YEAR}[-_]{MONTH}_{DAY}{END}",
    "o_{t:%Y-%m_%d}.txt": rf"(?<!\d){YEAR}[-_]{MONTH}_{DAY}{END}",
    "o_{t:%d_%m_%Y}.csv.gz": rf"(?<!\d){DAY}[-_.]{MONTH}_{YEAR}{END}",
    "o_{t:%m-%d_%Y}.csv": rf"(?<!\d){MONTH}[-_.]{DAY}_{YEAR}{END}",
    "o_{t:%d%m%y}.txt": rf"_(?P<day>\d\d)(?P<month>\d\d)(?P<year>\d\d){END}",
    "o_{t:%m%d%y}.txt": rf"_(?P<month>\d\d)(?P<day>\d\d)(?P<year>\d\d){END}",
    "o_{t:%Y%j}_{rest}.txt": None,
    "o_{t:%d%b%Y}_{rest}.txt": None,
}
RIGHT = [
    "o_{t:%y%m%d%H}.txt",
    "acct_{account}_{n}.txt",
    "ups_{n}.txt",
    "ups_{t:%Y%m%d%H}.txt",
    "{t:%Y%m%d}_{n}.csv",
    "v{rest}_{t:%Y%m%d}{hour:02}.csv",
    "a-{rest}_{ms}.csv",
]


def names_of(form, **step):
    times = [
        START + timedelta(**{unit: number * n for unit, number in (step or {"hours": 1}).items()}) for n in range(40)
    ]
    values = [
        {
            "t": t,
            "n": n,
            "rest": (7 * n + 3) % 10,
            "account": 1_234_567_890 - n,
            "hour": t.hour,
            "of_month": 24 * t.day + t.hour,
            "s": int(t.timestamp()),
            "ms": int(t.timestamp()) * 1000,
        }
        for n, t in enumerate(times)
    ]
    return [form.format(**value) for value in values]


@pytest.mark.parametrize(("form", "pattern"), FORMS.items())
def test_the_proposed_pattern_gives_the_order_of_the_producer(form, pattern):
    names = names_of(form)
    shuffled = random.Random(7).sample(names, len(names))

    found = contradiction(shuffled)
    assert (preset_of(shuffled) if found is None else found[1]) == pattern
    sequences = list(map(parse_pattern(pattern).sequence, names))
    assert sequences == sorted(sequences)
    assert len(set(sequences)) == len(names)
    assert max(sequences) < 2**63


@pytest.mark.parametrize(("form", "pattern"), DAILY.items())
def test_names_with_a_date_of_a_day(form, pattern):
    names = names_of(form, days=1)

    assert contradiction(random.Random(7).sample(names, len(names)))[1] == pattern
    sequences = list(map(parse_pattern(pattern).sequence, names)) if pattern else []
    assert sequences == sorted(set(sequences))


@pytest.mark.parametrize(
    "names", [["o_31_01_2026.csv"], ["o_01_02_2026.csv", "o_02_02_2026.csv"], ["o_2026_01_31.csv"]]
)
def test_a_date_in_several_numbers_needs_no_other_name(names):
    assert "ends with a date" in contradiction(names)[0]


@pytest.mark.parametrize(
    "names",
    [
        ["o_093000.csv", "o_101500.csv"],  # clocks
        ["o_110150.csv", "o_110151.csv"],  # counters
        ["o_110126.csv", "o_110127.csv"],
        ["o_010132.csv", "o_010133.csv"],
        ["store_2015_7.csv", "store_2020_3.csv"],
        ["eu_110101_5.csv", "eu_120101_3.csv"],
        ["o_202601_01.csv"],  # of the month
    ],
)
def test_numbers_that_are_no_dates(names):
    assert contradiction(names) is None


@pytest.mark.parametrize(
    "names",
    [
        ["o_2026_9_30.csv", "o_2026_10_1.csv", "o_2027_1_2.csv"],  # the pattern of the years would leave out the months
        ["o_2026_01_31.csv", "fix_5.csv"],
    ],
)
def test_a_pattern_that_does_not_fit_all_names_is_not_proposed(names):
    assert contradiction(names)[1] is None


@pytest.mark.parametrize("form", RIGHT)
def test_numbers_in_the_order_of_all_dates_are_right(form):
    names = names_of(form)
    assert contradiction(random.Random(7).sample(names, len(names))) is None
    assert preset_of(names) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "regular expression"),
        (r"_(\d+)", "the groups are year, month"),
        (r"(?P<day>\d)", "without the group month"),
        (r"(?P<size>\d+)", "the groups are"),
    ],
)
def test_a_wrong_pattern(text, why):
    with pytest.raises(ValueError, match=why):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("date", "a_20261331_2.csv"),
        ("date", "a_20261231_5_x.csv"),
        ("date", "a_20261231_99999999999.csv"),
        ("dms", "x.csv"),
        (r"(?P<year>\d{4})_(?P<number>\d+)", "2026_" + "9" * 15),
    ],
)
def test_names_without_a_sequence(text, name):
    assert parse_pattern(text).sequence(name) is None
