"""Settings, from files and the command line, as one frozen ``Config``.

sources    ``.properties``, TOML and ``key=value`` to flat text
parsers    the text of one setting to its value
settings   every setting with its key, type and default: ``Config``
conflicts  settings that are valid alone and wrong together
reader     all of these in turn: ``load`` and ``parse`` return a ``Config``
"""

from mutator.config.reader import load, parse
from mutator.config.settings import Config

__all__ = ["Config", "load", "parse"]
