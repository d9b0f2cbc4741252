"""The data sets of ``sample_data/``, read and merged with a dict."""

from datetime import datetime
from pathlib import Path

SAMPLE_DATA = Path(__file__).parents[2] / "sample_data"

README = (SAMPLE_DATA / "README.md").read_text(encoding="utf-8")


def rows_of(path):
    return path.read_bytes().splitlines()


def read_sample(name, id_width, order_of):
    """Read one folder; return the master {key: row}, and the feed as (key, order value, is a delete, row)."""
    [master_file] = (SAMPLE_DATA / name / "master").iterdir()
    master = {tuple(row.split(b",")[:id_width]): row for row in rows_of(master_file)}
    feed = []
    for path in sorted((SAMPLE_DATA / name / "feed").iterdir()):
        for row in rows_of(path):
            fields = row.split(b",")
            gone = path.name.startswith("del") or (name == "product_op_code" and fields[4] == b"D")
            content = b",".join(fields[:4] + fields[5:]) if name == "product_op_code" else row
            feed.append((tuple(fields[:id_width]), order_of(path, row), gone, content))
    return master, feed


def merge(master, feed):
    """Apply mutations from the oldest to the newest to a dict: the last one wins."""
    final = dict(master)
    for key, _, gone, row in sorted(feed, key=lambda mutation: mutation[1]):
        final.pop(key, None) if gone else final.update({key: row})
    return final


def file_sequence(path, row):
    return int(path.stem.rpartition("_")[2])


SAMPLES = {
    "product": (1, lambda path, row: int(row.split(b",")[5])),
    "product_op_code": (1, lambda path, row: int(row.split(b",")[6])),
    "product_sequence": (1, file_sequence),
    "sales": (2, lambda path, row: sales_time(row)),
}


def product_time(row):
    return int(row.split(b",")[5])


def sales_time(row):
    return datetime.fromisoformat(row.split(b",")[2].decode())
