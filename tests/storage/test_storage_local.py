"""Features of the local disk only (links, FIFOs, names that are not UTF-8), addresses, and damaged compressed data.

``test_storage_contract`` tests the contract of all backends.
"""

import bz2
import errno
import gzip
import lzma
import os
import random
import shutil
import socket
import sys

import pytest

from mutator.errors import MutatorError, StorageError
from mutator.storage import absolute, entries_of, local, local_directories, storage_for
from mutator.storage.compression import CorruptStream, decompress, sniff
from mutator.storage.contract import CERTAIN
from mutator.storage.local import LocalStorage
from tests.support.storage_places import EmptyDirectory, check_race, create_in_race, race_of_threads

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def test_entry_that_vanishes_while_it_is_listed_is_left_out(tmp_path, monkeypatch):
    """The other entries are returned: a listing that fails as a whole would make the directory look missing."""
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    real = os.scandir

    class Scan:
        def __enter__(self):
            found = sorted(real(tmp_path), key=lambda one: one.name)
            (tmp_path / "b").unlink()
            return found

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", lambda _: Scan())

    assert [entry.name for entry in entries_of(str(tmp_path))] == ["a", "c"]


def test_unknown_scheme_names_the_known_ones():
    with pytest.raises(MutatorError, match=r"'gopher' is not a known storage scheme.*file://") as caught:
        storage_for("gopher://host/path")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("file:///a%20b", "/a b"),
        ("file:/a%23b", "/a#b"),
        ("file://localhost/a", "/a"),
        ("FILE:///a", "/a"),
        ("/a%20b", "/a%20b"),  # a plain path is not an address
        ("/a/../b//c/", "/b/c"),
    ],
)
def test_address_of_a_local_path(address, path):
    assert absolute(address) == path


# --- only on a local disk ---


@pytest.fixture
def disk(tmp_path):
    return EmptyDirectory(LocalStorage(), str(tmp_path))


INVALID = os.fsdecode(b"a\xff\xfe\xc3")  # not UTF-8, but a legal name on Linux


def test_name_that_is_not_utf8_is_kept(disk):
    source = disk.directory("source")
    disk.write(f"{source}/{INVALID}", b"content")

    disk.storage.rename_new(source, disk / INVALID)

    assert os.listdir(os.fsencode(disk.root)) == [b"a\xff\xfe\xc3"]
    assert disk.names(disk / INVALID) == [INVALID]
    assert disk.read(f"{disk / INVALID}/{INVALID}") == b"content"
    assert [entry.name for entry in disk.storage.glob(disk / "a*")] == [INVALID]
    assert disk.storage.hold(disk / INVALID) is not None
    with pytest.raises(StorageError) as caught:
        disk.storage.open(disk / "a\udcffb")
    str(caught.value).encode()  # the message can be printed
    disk.storage.remove(disk / INVALID)
    assert disk.names() == []


@pytest.mark.parametrize("entry_type", ["symbolic link", "FIFO", "socket", "device"])
def test_a_special_file_is_named_and_not_opened(disk, entry_type):
    disk.write(disk / "file", b"content")
    path = disk / "odd"
    if entry_type == "symbolic link":
        os.symlink(disk / "file", path)
    elif entry_type == "FIFO":
        os.mkfifo(path)
    elif entry_type == "socket":
        server = socket.socket(socket.AF_UNIX)
        here = os.open(disk.root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/odd")  # the path of a socket must be short
        os.close(here)
        server.close()
    else:
        path = "/dev/null"

    assert disk.storage.stat(path).type == entry_type
    with pytest.raises(StorageError, match=path):  # and does not wait for a writer of the FIFO
        disk.storage.open(path)


def test_dangling_link_exists(disk):
    os.symlink(disk / "nowhere", disk / "link")

    assert disk.storage.stat(disk / "link").type == "symbolic link"
    assert disk.names() == ["link"]
    with pytest.raises(StorageError):
        disk.write(disk / "link")
    assert not os.path.exists(disk / "nowhere")


def test_remove_does_not_follow_links(disk):
    disk.directory("keep")
    disk.write(disk / "keep/file")
    disk.directory("tree")
    os.symlink(disk / "keep", disk / "tree/link")
    os.symlink(disk / "keep", disk / "link")

    disk.storage.remove(disk / "tree")
    disk.storage.remove(disk / "link")

    assert disk.names() == ["keep"]
    assert disk.names(disk / "keep") == ["file"]


def test_resolve_follows_links_to_directories_only(disk):
    disk.directory("real")
    disk.write(disk / "real/file")
    os.symlink("real", disk / "link")
    os.symlink("file", disk / "real/other")

    assert disk.storage.resolve(disk / "link/file") == disk / "real/file"
    assert disk.storage.resolve(disk / "link") == disk / "real"
    assert disk.storage.resolve(disk / "link/other") == disk / "real/other"
    assert disk.storage.resolve(disk / "link/new") == disk / "real/new"


@pytest.mark.parametrize("name", ["file", "new/file"])
def test_a_directory_that_refuses_changes_is_named(disk, monkeypatch, name):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    for call in ("link", "mkdir"):
        monkeypatch.setattr(local.os, call, refuse)
    monkeypatch.setattr(local.os, "access", lambda *_: False)
    change = disk.storage.make_directory if "/" in name else lambda path: disk.write(path, b"x")
    with pytest.raises(StorageError) as refused:
        change(disk / name)

    assert refused.value.fields["path"] == disk.root
    assert "Permission denied: this directory cannot be changed" in str(refused.value)


def test_without_links_a_new_file_still_replaces_nothing(disk, monkeypatch):
    """FAT and some network file systems cannot link."""

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(local.os, "link", refuse)
    disk.write(disk / "file", b"first")
    with pytest.raises(StorageError, match="file"):
        disk.write(disk / "file", b"second")

    assert disk.read(disk / "file") == b"first"
    assert disk.names() == ["file"]
    disk.storage.remove(disk / "file")
    check_race(disk, race_of_threads, create_in_race)


def test_a_link_that_was_made_before_its_answer_got_lost(disk, monkeypatch):
    """NFS asks again, and is told that the name exists."""
    link = os.link

    def link_twice(source, target):
        link(source, target)
        link(source, target)

    monkeypatch.setattr(local.os, "link", link_twice)
    disk.write(disk / "file", b"content")
    assert disk.names() == ["file"]

    with pytest.raises(StorageError) as caught:
        disk.write(disk / "file", b"other")
    assert caught.value.kind == "storage.exists"
    assert disk.read(disk / "file") == b"content"


@pytest.mark.parametrize("code", sorted(local_directories.NO_LINKS))
def test_where_links_are_impossible_link_returns_false_and_creates_nothing(disk, monkeypatch, code):
    """The caller then copies the file; any other failure is an error."""

    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    disk.write(disk / "file", b"content")
    monkeypatch.setattr(local.os, "link", refuse)

    assert disk.storage.link_new(disk / "file", disk / "twin") is False
    assert disk.names() == ["file"]
    code = errno.ENOSPC
    with pytest.raises(StorageError, match="No space left on device"):
        disk.storage.link_new(disk / "file", disk / "twin")


def test_link_shares_its_content(disk):
    """The bytes exist only once: the file is not read, and damage to one name is damage to both."""
    disk.write(disk / "file", b"content")
    disk.storage.link_new(disk / "file", disk / "twin")

    one, other = os.stat(disk / "file"), os.stat(disk / "twin")
    assert (one.st_dev, one.st_ino, one.st_nlink) == (other.st_dev, other.st_ino, 2)


def test_full_disk_is_an_error_and_leaves_nothing(disk, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local.os, "fsync", full)  # a delayed allocation fails here

    with pytest.raises(StorageError, match=r"file: No space left on device"):
        disk.write(disk / "file", b"content")
    assert disk.names() == []


CHANGES = {
    "create_new": lambda disk: disk.write(disk / "new", b"content"),
    "replace": lambda disk: disk.storage.replace(disk / "new", b"content"),
    "rename_new": lambda disk: disk.storage.rename_new(disk / "file", disk / "new"),
    "make_directory": lambda disk: disk.storage.make_directory(disk / "new"),
    "swap": lambda disk: disk.storage.swap(disk / "one", disk / "other"),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.ENOENT])
@pytest.mark.parametrize("change", CHANGES)
def test_change_that_was_made_and_is_not_durable_is_uncertain(disk, monkeypatch, change, code):
    """After an error that is certain, callers act as if nothing had been changed."""
    disk.write(disk / "file", b"content")
    for name in ("one", "other"):
        disk.write(f"{disk.directory(name)}/file", name.encode())
    fsync = os.fsync

    def fail(handle):
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(code, os.strerror(code))
        fsync(handle)

    monkeypatch.setattr(local.os, "fsync", fail)
    with pytest.raises(StorageError, match=f"may not be durable: {os.strerror(code)}") as caught:
        CHANGES[change](disk)

    assert caught.value.kind not in (*CERTAIN, "storage.missing", "storage.exists")
    if change == "swap":
        assert disk.read(disk / "one/file") == b"other"
    else:
        assert os.path.exists(disk / "new")


def test_content_is_durable_before_its_name_is(disk, monkeypatch):
    """The order of the calls is the only sign of durability that a test can see without cutting the power."""
    calls = []
    fsync, link = os.fsync, os.link
    entry_type = {True: "directory", False: "file"}
    monkeypatch.setattr(
        local.os, "fsync", lambda fd: (calls.append(entry_type[os.path.isdir(f"/proc/self/fd/{fd}")]), fsync(fd))
    )
    monkeypatch.setattr(local.os, "link", lambda *names: (calls.append("link"), link(*names)))

    disk.write(disk / "file", b"content")

    assert calls == ["file", "link", "directory"]


@pytest.mark.parametrize("code", [errno.ENOTEMPTY, errno.EBUSY, errno.ENOENT])
def test_remove_outlasts_a_writer_that_is_about_to_die(disk, monkeypatch, code):
    """The workers of a killed run continue to write until their JVM has died."""
    tree, calls, rmtree = disk.directory("tree"), [], shutil.rmtree

    def raced(path):
        calls.append(path)
        if len(calls) < 3:
            raise OSError(code, os.strerror(code), path)
        rmtree(path)

    monkeypatch.setattr(local_directories.shutil, "rmtree", raced)
    disk.storage.remove(tree)

    assert len(calls) == 3
    assert disk.names() == []


def test_claim_of_a_directory_that_was_replaced_meanwhile_fails(disk, monkeypatch):
    """Between opening and locking the directory, its owner may publish it, and another run may create a new one."""
    path, flock = disk.directory("claimed"), local_directories.fcntl.flock

    def late(handle, flags):
        os.rename(path, disk / "published")
        os.mkdir(path)
        flock(handle, flags)

    monkeypatch.setattr(local_directories.fcntl, "flock", late)

    assert disk.storage.hold(path) is None


# --- compression ---


def zstd_compress(data):
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


COMPRESS = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "bzip2": bz2.compress,
    "zstd": zstd_compress,
    "xz": lzma.compress,
}
CONTENT = b"".join(b"k%d,%d,value %d\n" % (n, n * n, n % 7) for n in range(30))


def unpacked(data, compression, block=1 << 20):
    return b"".join(decompress([data[at : at + block] for at in range(0, len(data), block)], compression))


@pytest.fixture(params=list(COMPRESS))
def compression(request):
    return request.param


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_content_is_read_from_blocks_of_any_size(compression, block):
    for content in (b"", b"x", CONTENT, random.Random(1).randbytes(300_000 if block > 7 else 3_000)):
        assert unpacked(COMPRESS[compression](content), compression, block) == content


@pytest.mark.thorough(keep=1)
def test_small_file_with_much_content(compression):
    assert unpacked(COMPRESS[compression](bytes(30 << 20)), compression) == bytes(30 << 20)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_several_streams_are_one_content(compression, block):
    compress = COMPRESS[compression]
    streams = [compress(CONTENT), compress(b""), compress(b"a,1\nb"), compress(b",2\n")]

    assert unpacked(b"".join(streams), compression, block) == CONTENT + b"a,1\nb,2\n"


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize(
    "garbage", [b"k9,9,lost row\n", b"\n", b"\0", b"\0\0\0\0", b"\x1f", b"B", b"BZh9", b"\xfd7zXZ"]
)
def test_bytes_after_the_last_stream_are_an_error(compression, garbage, block):
    with pytest.raises(CorruptStream, match=compression):
        unpacked(COMPRESS[compression](CONTENT) + garbage, compression, block)


def test_stream_of_another_compression_after_the_last_is_an_error(compression):
    for other in COMPRESS:
        if other != compression:
            with pytest.raises(CorruptStream, match=compression):
                unpacked(COMPRESS[compression](CONTENT) + COMPRESS[other](CONTENT), compression)


def test_file_that_ends_early_is_an_error_at_every_byte(compression):
    """At byte 0 there is no stream at all; ``survey`` refuses such a file by its size."""
    data = COMPRESS[compression](CONTENT)

    for end in range(1, len(data)):
        with pytest.raises(CorruptStream):
            unpacked(data[:end], compression)


def test_second_stream_that_ends_early_is_an_error_at_every_byte(compression):
    first, second = COMPRESS[compression](CONTENT), COMPRESS[compression](b"a,1\n")

    for end in range(1, len(second)):
        with pytest.raises(CorruptStream):
            unpacked(first + second[:end], compression)


def test_flipped_bit_never_changes_the_content(compression):
    data = COMPRESS[compression](CONTENT)
    found = 0

    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            content = unpacked(bytes(damaged), compression)
        except CorruptStream:
            found += 1
        else:
            # Some bits do not affect the content: gzip stores a time, and bzip2 pads its last byte.
            assert content == CONTENT, f"bit {bit}"
    assert found > len(data) * 8 * 0.8


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"BZh91AY&SY", "bzip2"),
        (b"BZh1\x17rE8P\x90", "bzip2"),  # of empty content
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (b"\xfd7zXZ\x00\x00", "xz"),
        (b"PK\x03\x04\x14\x00", "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c\x00", "a 7z archive"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"\xff\x06\x00\x00sNaPpY", "snappy"),
        (b"PAR1\x15\x04\x15\x14\x15\x14\x15\xde\xb5\xe1", "Parquet"),
        (b"ORC\x0a\x06\x12\x04\x08\x01P\x00\x0a", "ORC"),
        (b"Obj\x01\x04\x14avro.codec", "Avro"),
        # rows that start like one of these formats
        (b"", None),
        (b"\x1f", None),
        (b"BZh,1,2\n", None),
        (b"BZh9,1,2\n", None),
        (b"BZhang,1,2\n", None),
        (b"PK,1,2\n", None),
        (b"PAR1,Paris,2\n", None),
        (b"PAR1", None),
        (b"ORC,1,2\n", None),
        (b"ORC", None),
        (b"Obj,1,2\n", None),
        (b"k1,1,2\n", None),
        ("é,1\n".encode(), None),
        (b"\xff\xfek\0", None),
    ],
)
def test_sniff(head, name):
    assert sniff(head) == name


def test_sniff_recognises_the_output_of_compressors(compression):
    for content in (b"", b"x", CONTENT):
        assert sniff(COMPRESS[compression](content)) == compression


@pytest.mark.parametrize("name", ["f.toml", "é" * 120, "f[1].toml"], ids=["short", "long", "brackets"])
def test_leftovers_are_removed_one_by_one(tmp_path, monkeypatch, name):
    """Those of killed writers of one file; one that cannot be removed keeps none of the others."""
    path = str(tmp_path / name)
    with monkeypatch.context() as patch:
        patch.setattr(local.os, "unlink", lambda _: None)  # as after a kill
        patch.setattr(local.os, "replace", lambda *_: None)
        for _ in range(8):
            LocalStorage().replace(path, b"x")
    left = sorted(os.listdir(tmp_path))
    assert len(left) == 8
    stuck = {found[:-4] + f"{number:04x}" for number, found in enumerate(left)} - set(left)
    others = {f".other.{'0' * 32}", f"{left[0]}0", left[0][:-1], left[0][1:]}
    for found in stuck:
        (tmp_path / found).mkdir()
    for found in others:
        (tmp_path / found).write_bytes(b"")
    for found in os.listdir(tmp_path):
        os.utime(tmp_path / found, (1, 1))
    (tmp_path / (left[0][:-4] + "ffff")).write_bytes(b"of a writer that runs")
    local.remove_leftovers(path)
    assert set(os.listdir(tmp_path)) == stuck | others | {left[0][:-4] + "ffff"}
    local.remove_leftovers(str(tmp_path / "none" / name))


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_rename_replaces_nothing_where_the_system_cannot_refuse(tmp_path, monkeypatch, kind):
    """Such as a network file system without hard links."""
    monkeypatch.setattr(local_directories, "_renameat2", lambda *_: False)
    monkeypatch.setattr(local_directories, "link_new", lambda *_: False)
    source, target, free = (tmp_path / name for name in ("source", "target", "free"))
    for path in (source, target):
        path.mkdir() if kind == "directory" else path.write_text(path.name)
    with pytest.raises(FileExistsError):
        local_directories.rename_noreplace(str(source), str(target))
    assert source.exists()
    assert kind == "directory" or target.read_text() == "target"

    local_directories.rename_noreplace(str(source), str(free))
    assert free.exists()
    assert not source.exists()
