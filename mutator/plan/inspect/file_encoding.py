"""The encoding of one delimited file: the one that is set, with the byte order of the file."""

from mutator.errors import MutatorError, error
from mutator.formats.files import lines
from mutator.rules.encodings import UTF8, contradiction, exact


def encoding_of(wanted: str, path: str, head: bytes) -> str:
    """Return the encoding of a delimited file. Raises DataError where its first bytes show another one.

    wanted: as the user set it. head: the first bytes, uncompressed.
    """
    wide = lines.wide_encoding(head)
    if wide is not None and not wanted.startswith(wide.lower()):
        cure = f", or convert it to UTF-8 (iconv -f {wide} -t UTF-8)"
        raise error("encoding", path=path, what=f"{wide} text", name=wide.lower(), cure=cure)
    if found := contradiction(wanted, head):
        what = f"{found} text" if found.startswith("not") else f"{found} text, not {wanted}"
        raise error("encoding", path=path, what=what, name=UTF8, cure="")
    return exact(wanted, head)


def unreadable_header(path: str, encoding: str) -> MutatorError:
    """Return the error of a file whose header is not in its encoding."""
    wanted = encoding if encoding != UTF8 else "UTF-8"
    cure = ", if it is of a Windows program" if encoding == UTF8 else ""
    what = f"not {wanted} text: its header has other bytes"
    return error("encoding", path=path, what=what, name="cp1252" if encoding == UTF8 else UTF8, cure=cure)
