"""The lines of messages that may carry fields, without a look at the others, and what both halves of a change share."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from mutator.formats.content import Content
from mutator.formats.files.lines import CR, chunks
from mutator.rules.byte_columns import Ints
from mutator.rules.envelope import LineMarks


class MarkedLines:
    r"""The lines of a content that have some marks, each with a few lines before it.

    >>> import re
    >>> from types import SimpleNamespace
    >>> from mutator.formats.content import Window
    >>> content = SimpleNamespace(window=Window(), blocks=lambda: [b"one\ntwo\nthree x\nfour\n"])
    >>> found = MarkedLines(content, LineMarks((b"x",), re.compile(b"e")), before=1)
    >>> list(found.blocks()), found.offsets(np.array([0, 4])).tolist()
    ([b'two\nthree x\n'], [4, 8])
    """

    def __init__(self, content: Content, marks: LineMarks, before: int) -> None:
        """Read the content. before: lines that are taken before each one."""
        self.window = replace(content.window, start=0, end=None, bom=False, header_end=0)
        self._lines, self._offsets = list[bytes](), list[int]()
        for start, chunk in chunks(content.blocks(), content.window):
            end = 0
            for at in sorted(at for mark in marks.any_of for at in _places(chunk, mark)):
                if at < end:
                    continue
                begin, line_end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at) + 1 or len(chunk)
                if marks.line.search(chunk, begin, line_end):
                    for _ in range(before):
                        begin = chunk.rfind(b"\n", 0, max(begin - 1, 0)) + 1
                    self._add(start, chunk, max(begin, end), line_end)
                end = line_end

    def _add(self, start: int, chunk: bytes, begin: int, end: int) -> None:
        while begin < end:
            line_end = chunk.find(b"\n", begin, end) + 1 or end
            self._lines.append(chunk[begin:line_end])
            self._offsets.append(start + begin)
            begin = line_end

    def __len__(self) -> int:
        return len(self._lines)

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines."""
        yield b"".join(self._lines)

    def file(self) -> BinaryIO:
        """Open the lines as a stream."""
        return io.BytesIO(b"".join(self._lines))

    def offsets(self, found: Ints) -> Ints:
        """Return the offsets in the file of lines. found: their offsets in this content."""
        begins = np.cumsum([0, *map(len, self._lines)])[:-1]
        return np.array(self._offsets, np.int64)[np.searchsorted(begins, found)]


def _places(chunk: bytes, mark: bytes) -> Iterator[int]:
    """Yield the offsets of a text. A search for bytes takes two thirds of the time of one for a pattern."""
    at = chunk.find(mark)
    while at >= 0:
        yield at
        at = chunk.find(mark, at + len(mark))


def change_fields(content: Content) -> list[Any]:
    """Return the pa.Fields that both halves of a changed key share, in the messages of a content."""
    change = () if content.window.wrapped is None else content.window.wrapped.envelope.change
    if not change:
        return []
    from mutator.rules.dialects.messages import ORDER_TYPES  # which other runs need not load

    return [pa.field(name, ORDER_TYPES[kind]) for name, kind in change]


def marked_lines(content: Content, file_format: str, near: int) -> MarkedLines | None:
    """Return the lines of a content that may carry fields, and those near them; None if all have to be read."""
    window, wrapped = content.window, content.window.wrapped
    if file_format != "json" or wrapped is None or wrapped.keys is not None or window.bom or window.ending == CR:
        return None
    marks = wrapped.envelope.marks
    return None if marks is None else MarkedLines(content, marks, near)
