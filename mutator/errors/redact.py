"""Addresses as messages and reports may show them."""

from __future__ import annotations

import re

_USER = re.compile(r"(://[^/@:\s]*):[^/@\s]*@")
_SIGNATURE = re.compile(r"(https?://[^\s?]*)\?\S*")


def without_secrets(text: str) -> str:
    """Leave the passwords and signatures out of the addresses in a text.

    >>> without_secrets("sftp://me:secret@host/ups_1.txt"), without_secrets("https://host/ups_1.txt?sig=abc")
    ('sftp://me:***@host/ups_1.txt', 'https://host/ups_1.txt?***')
    """
    return _SIGNATURE.sub(r"\1?***", _USER.sub(r"\1:***@", text))
