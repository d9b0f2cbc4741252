"""Manifests are read back, and any damage to a manifest is found."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset import checksum, manifest
from mutator.dataset.commits import RUN, Commit, FeedFile
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import KnownFeed, State
from mutator.errors import StateError

MANIFEST = State(
    commit=Commit(
        number=0,
        id="7f0c",
        action=RUN,
        run="20261121T000000Z-00000000",
        committed="2026-11-21T00:00:00.000+00:00",
        snapshot="é\udcff",
        counts={"feed rows": 1},
        buckets=2,
        hash="murmur64a",
        records=1,
    ),
    spec={"key": {"ordinals": [0], "types": ["bytes"]}, "order": {"by": "file name"}, "width": 2, "format": "text"},
    files=(
        FileEntry(
            path="part-0.txt",
            bucket=0,
            rows=1,
            bytes=4,
            checksum=checksum.whole(b"a,1\n"),
            order="_mutator/order/part-0.txt.parquet",
        ),
    ),
    beside=(
        FileEntry(
            path="_mutator/order/part-0.txt.parquet",
            role="order",
            bucket=0,
            rows=1,
            bytes=9,
            checksum=checksum.whole(b""),
        ),
    ),
    known=KnownFeed(
        (FeedFile(name="ups_1.txt", bytes=4, checksum=checksum.whole(b""), committed="2026-11-21T00:00:00.000+00:00"),)
    ),
)


def test_a_manifest_is_read_back():
    assert manifest.parse(manifest.dump(MANIFEST), "m") == MANIFEST


def test_every_flipped_bit_of_a_manifest_is_found():
    data = manifest.dump(dataclasses.replace(MANIFEST, files=(), beside=(), known=KnownFeed()))
    for bit in range(8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StateError):
            manifest.parse(bytes(broken), "m")


@given(st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 3))
def test_every_edit_of_a_manifest_is_found(at, put, cut):
    data = manifest.dump(MANIFEST)
    at %= len(data)
    edited = data[:at] + put + data[at + cut :]
    if edited != data:
        with pytest.raises(StateError):
            manifest.parse(edited, "m")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\xff", b'"x"', b"[" * 100_000, b'{"checksum": 1}'])
def test_malformed_manifests(data):
    with pytest.raises(StateError, match="the manifest is damaged"):
        manifest.parse(data, "m")


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "", "./a", "a//b"])
def test_a_manifest_cannot_name_a_file_outside_its_dataset(path):
    made = dataclasses.replace(MANIFEST, files=(dataclasses.replace(MANIFEST.files[0], path=path),))
    with pytest.raises(StateError, match="it names a file outside of the directory"):
        manifest.parse(manifest.dump(made), "m")


def test_a_manifest_of_a_newer_program(monkeypatch):
    in_path = {"in path": ["shop"]}
    whole = dataclasses.replace(MANIFEST, spec={**MANIFEST.spec, "earlier": [{"format": "orc"}]})
    own = [dataclasses.replace(whole, spec={**whole.spec, **more}) for more in (in_path, {"earlier": [{}, in_path]})]
    own.append(dataclasses.replace(own[0], commit=dataclasses.replace(whole.commit, floor="7")))
    assert [manifest.parse(manifest.dump(one), "m") for one in (whole, *own)] == [whole, *own]
    written = [manifest.dump(one) for one in (whole, *own)]
    monkeypatch.setattr(manifest, "FORMAT_VERSION", 6)  # as of a program that knows no floor, nor fields in paths
    assert manifest.parse(written[0], "m") == whole
    for data, version in zip(written[1:], (7, 7, 8), strict=True):
        with pytest.raises(StateError, match=f"version {version}, but this program knows 6; use a newer program"):
            manifest.parse(data, "m")
