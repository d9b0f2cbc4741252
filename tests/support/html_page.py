"""A page of HTML as a strict reader sees it: its text, its tables, and everything that it would load or run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link", "base"}


class Page(HTMLParser):
    """A parsed page. Each element must be closed, in the right order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []  # attributes that load or run something
        self.ids: list[str] = []
        self.pieces: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], self.open
        assert len(self.ids) == len(set(self.ids)), self.ids

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "data", "action", "formaction", "background") or name.startswith("on"):
                self.loads.append(f"{name}={value}")
            if name == "id":
                self.ids.append(str(value))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            assert "url(" not in data
            assert "@import" not in data
        else:
            self.pieces.append(data)

    @property
    def text(self) -> str:
        """The text that a person reads, with single blanks."""
        return re.sub(r"\s+", " ", " ".join(self.pieces))


def check(text: str) -> Page:
    """Return a page. Assert that it is one file, without a script and without anything from elsewhere."""
    page = Page(text)
    assert page.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "style"} == {"style"}
    assert page.loads == []
    assert all(character.isprintable() or character == "\n" for character in text)
    return page
