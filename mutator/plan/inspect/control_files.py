"""Control files: small files beside feed files that state their rows, bytes or checksums.

The control file of ``ups_7.txt.gz`` is ``ups_7.txt.gz.ctl``, where that is the suffix. Bytes and checksums in it are
those of the feed file as it is stored. Rows are counted as a run counts them: without blank lines and headers, and with
the rows that will be rejected.

>>> parse(b"# Monday's\\nRows: 0120\\nbytes=2048\\n", "ups_7.txt")
{'rows': '120', 'bytes': '2048'}
>>> parse(b"900150983cd24fb0d6963f7d28e17f72  ups_7.txt\\n", "ups_7.txt")
{'md5': '900150983cd24fb0d6963f7d28e17f72'}
"""

import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence

from mutator.dataset.file_content import FileContent
from mutator.errors import error
from mutator.errors.parts import place
from mutator.formats.content import NotReadable, unreadable
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.rules import file_names
from mutator.storage import Entry, blocks, storage_for
from mutator.storage.compression import CorruptStream

_MOST = 64 << 10  # bytes of a control file, at most
_HASHES = {"md5": 32, "sha1": 40, "sha256": 64}  # number of hex digits
_KEYS = {"rows": "rows", "records": "rows", "count": "rows", "bytes": "bytes", "crc32": "crc32"}
_KEYS |= {name: name for name in _HASHES}

_NUMBER = re.compile(r"[0-9]{1,18}")
_CRC32 = re.compile(r"(?:0x)?([0-9a-f]{1,8})")
_PAIR = re.compile(r"([A-Za-z][^=:]*?)\s*[=:]\s*(.*)")
_DIGEST = re.compile(r"([0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64})(?:\s+\*?(\S.*))?")


def parse(data: bytes, name: str) -> dict[str, str]:
    """Return the statements of a control file, each value normalized.

    name: that of the feed file. Raises ValueError with the reason why the control file cannot be used.
    """
    if len(data) > _MOST:
        raise ValueError(f"it is larger than {_MOST >> 10} KiB")
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise ValueError(f"it is no UTF-8 text (byte {fault.start})") from None
    # Not splitlines: a file name may contain other characters that it takes for the end of a line.
    lines = [line.strip() for line in re.split(r"\r\n|\r|\n", content)]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise ValueError("it says nothing")
    if len(lines) == 1 and (alone := _alone(lines[0], name)):
        return alone
    statements: dict[str, str] = {}
    for line in lines:
        pair = _PAIR.fullmatch(line)
        if pair is None:
            raise ValueError(f"'{_short(line)}' is not understood")
        key = _KEYS.get(pair[1].lower())
        if key is None:
            raise ValueError(f"'{_short(pair[1])}' is not known; known are {', '.join(_KEYS)}")
        value = _value(key, pair[2])
        if statements.setdefault(key, value) != value:
            raise ValueError(f"it says two different things of {key}: {statements[key]} and {value}")
    return statements


def set_apart(suffix: str, paths: Iterable[str], found: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the feed files among the files that were found, by path.

    paths: those that the user named. Raises DataError for a control file without its feed file: the delivery is
    incomplete. A pattern such as ``*.txt`` matches no control file, so those beside its matches are searched for.
    """
    controls = {path: one for path, one in found.items() if file_names.feed_name(one.name, suffix)}
    feed = {path: one for path, one in found.items() if path not in controls}
    for given in paths:
        storage = storage_for(given)
        path = storage.resolve(given)
        if path not in found and storage.stat(path) is None:
            beside = [entry for entry in storage.glob(path + suffix) if entry.type == "file"]
            controls |= {entry.path: entry for entry in beside if not file_names.is_hidden(entry.name)}
    orphans = sorted(controls.keys() - {storage_for(path).with_suffix(path, suffix) for path in feed})
    if orphans:
        raise error("control.orphan", paths=file_names.first_few([place(path) for path in orphans]))
    return feed


def check(suffix: str, feed: Sequence[Source]) -> None:
    """Compare feed files with their control files.

    Raises DataError with all files that have no control file, with the first control file that cannot be used, or with
    all feed files that differ from their control files.
    """
    paths = [storage_for(source.path).with_suffix(source.path, suffix) for source in feed]
    missing = []
    for source, path in zip(feed, paths, strict=True):
        entry = storage_for(path).stat(path)
        if entry is None:
            missing.append(place(source.path))
        elif entry.type != "file":
            raise error("path.kind", path=path, what=entry.type, cure="copy the data into a plain file")
    if missing:
        raise error("control.missing", paths=file_names.first_few(missing), suffix=suffix)
    wrong = []
    for source, path in zip(feed, paths, strict=True):
        storage = storage_for(source.path)
        with storage.open(path) as stream:
            data = b"".join(blocks(stream, _MOST + 1))
        try:
            statements = parse(data, source.name)
        except ValueError as fault:
            raise error("control.unusable", path=path, why=fault) from None
        says = f"{place(source.path)}: its control file {file_names.base_name(path)} says"
        wrong += [
            f"{says} {key}={statements[key]}, and it has {key}={found}" for key, found in _differing(source, statements)
        ]
    if wrong:
        raise error("control.differs", what="; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" * (len(wrong) > 5)))


def count_rows(source: Source) -> int:
    """Return the number of rows of a feed file; raises DataError for a damaged one."""
    content = FileContent(source.path, source.bytes, source.window(), compression=source.compression)
    try:
        return FILE_FORMATS[source.file_format].count(content, source.dialect)
    except (CorruptStream, NotReadable) as fault:
        raise unreadable(source.path, fault) from None


def _alone(line: str, name: str) -> dict[str, str]:
    """Read a line without a key: a number of rows, or a digest as md5sum writes it. Return nothing if it is neither.

    A digest may consist of decimal digits, and no file has so many rows, so it is tried first.
    """
    digest = _DIGEST.fullmatch(line)
    if digest is not None:
        if digest[2] is not None and digest[2] != name:
            raise ValueError(f"it is of '{_short(digest[2])}'")
        return {algorithm: digest[1].lower() for algorithm, digits in _HASHES.items() if digits == len(digest[1])}
    return {"rows": str(int(line))} if _NUMBER.fullmatch(line) else {}


def _value(key: str, value: str) -> str:
    if key in ("rows", "bytes"):
        if not _NUMBER.fullmatch(value):
            raise ValueError(f"{key} must be a whole number, and is '{_short(value)}'")
        return str(int(value))
    if key == "crc32":
        if (digits := _CRC32.fullmatch(value.lower())) is None:
            raise ValueError(f"crc32 must be 8 hex digits, and is '{_short(value)}'")
        return digits[1].rjust(8, "0")
    if not re.fullmatch(rf"[0-9a-f]{{{_HASHES[key]}}}", value.lower()):
        raise ValueError(f"{key} must be {_HASHES[key]} hex digits, and is '{_short(value)}'")
    return value.lower()


def _differing(source: Source, statements: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the keys of the statements that are wrong, with the values of the feed file."""
    storage = storage_for(source.path)
    found = {"bytes": str(source.bytes)}
    if statements.keys() - {"rows", "bytes"}:
        with storage.open(source.path) as stream:
            found = _digests(blocks(stream), statements)
    differing = [(key, found[key]) for key in statements if key != "rows" and statements[key] != found[key]]
    if "rows" in statements and not differing:  # a file that was cut short cannot be unpacked
        rows = str(count_rows(source))
        differing = [("rows", rows)] if rows != statements["rows"] else []
    return differing


def _digests(stored: Iterable[bytes], names: Iterable[str]) -> dict[str, str]:
    """Return the size and the digests of a file, which is read once."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in names if name in _HASHES}
    crc32 = size = 0
    for block in stored:
        size += len(block)
        crc32 = zlib.crc32(block, crc32)
        for state in hashes.values():
            state.update(block)
    digests = {name: state.hexdigest() for name, state in hashes.items()}
    return {**digests, "crc32": f"{crc32:08x}", "bytes": str(size)}


def _short(value: str) -> str:
    return value if len(value) <= 80 else value[:77] + "…"
