"""Bytes to rows and back: a module a format, one registry."""

from mutator.formats.block import Format
from mutator.formats.text_blocks import TextFormat

__all__ = ["FORMATS"]

FORMATS: dict[str, Format] = {"text": TextFormat()}
