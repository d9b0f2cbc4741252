"""The encodings of master and feed, as far as the first bytes of their files show them."""

from collections.abc import Iterable, Mapping, Sequence

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files import lines
from mutator.plan.inspect.probe import format_of_name
from mutator.plan.proposal.choices import Choice, Value
from mutator.rules.encodings import UTF8, is_utf8, parse_encoding
from mutator.rules.file_names import COMPRESSIONS
from mutator.storage import Entry, blocks, storage_for
from mutator.storage.compression import CorruptStream, decompress, sniff

ENCODING, MASTER_ENCODING = "encoding", "master.encoding"
_HEAD = 64 << 10
_RAW = ("", "")
_OTHERS: Sequence[tuple[Value, str]] = (("latin-1", "of older Unix programs"), ("cp850", "of DOS programs"))


@dataclass(frozen=True)
class Encodings:
    """The encodings of both sides, and the settings that say so."""

    feed: str
    master: str
    choices: tuple[Choice, ...] = ()


def encodings_of(settings: Mapping[str, str | None], feed: Sequence[Entry], master: Sequence[Entry]) -> Encodings:
    """Return the encodings of both sides. settings: those that the user has set, by key.

    feed, master: the files that are read; those of a master that mutator wrote are not among them.
    """
    given = {key: parse_encoding(value) for key, value in settings.items() if value}
    of_feed, of_master = (None if ENCODING in given else _guessed(feed)), _guessed(master)
    both, choices = given.get(ENCODING), []
    if _RAW in (of_feed, of_master):
        set_or_default = both or UTF8
        return Encodings(set_or_default, given.get(MASTER_ENCODING) or set_or_default)
    if both is None:
        found = of_feed
        if found is None and of_master is not None and not _is_wide(of_master[0]):
            found = of_master  # the feed is ASCII
        both = UTF8 if found is None else found[0]
        choices += _choices(ENCODING, found)
    own = given.get(MASTER_ENCODING)
    if own is None:
        if of_master is None and _is_wide(both) and master:
            of_master = (UTF8, master[0].name)
        own = both if of_master is None else of_master[0]
        if own != both:
            choices += _choices(MASTER_ENCODING, of_master, is_default=False)
    return Encodings(both, own, tuple(choices))


def _choices(key: str, found: tuple[str, str] | None, *, is_default: bool = True) -> list[Choice]:
    """Return the setting for an encoding. found: it, and the file that has it. is_default: UTF-8 needs no setting."""
    if found is None or (found[0] == UTF8 and is_default):
        return []
    encoding, name = found
    if encoding == UTF8:
        return [Choice(key, UTF8, f"{name} is UTF-8")]
    if _is_wide(encoding):
        return [Choice(key, encoding, f"{name} begins with the mark of {encoding.upper()}")]
    question = (
        f"Which encoding has {name}? Its bytes show only that it is not UTF-8; {encoding} is the usual one of Windows "
        "programs. With a wrong one, letters beyond ASCII become others: compare some of them with the source, and set "
        f"{{{key}}}."
    )
    return [Choice(key, encoding, f"{name} has bytes that are not UTF-8", _OTHERS, question)]


def _is_wide(encoding: str) -> bool:
    return encoding.startswith(("utf-16", "utf-32"))


def _guessed(entries: Iterable[Entry]) -> tuple[str, str] | None:
    """Return the encoding of the first file that is not ASCII, and its name; None without such a file.

    JSON is UTF-8: a row with other bytes is a reject. Returns ``_RAW`` where none can be guessed: bytes that mean
    nothing in cp1252 are merged as they are.
    """
    found = None
    for entry in entries:
        head = _head(entry)
        wide = lines.wide_encoding(head)
        if head.isascii() or (wide is None and lines.is_binary(head)):
            continue
        is_json = format_of_name(entry.name, named=True) == "json" or head.lstrip().startswith(b'{"')
        known = wide.lower() if wide is not None else UTF8 if is_json or is_utf8(head) else None
        if known is not None:
            return found or (known, entry.name)
        try:
            head.decode("cp1252")
        except UnicodeDecodeError:
            return _RAW
        found = found or ("cp1252", entry.name)
    return found


def _head(entry: Entry) -> bytes:
    """Return the first bytes of a file of text, uncompressed; nothing of another file."""
    with storage_for(entry.path).open(entry.path) as stream:
        head = b"".join(blocks(stream, _HEAD))
    content = sniff(head[:64])
    if content in COMPRESSIONS.values():
        try:
            return next(decompress([head], f"{content}"), b"")
        except CorruptStream:
            return b""
    return head if content is None else b""
