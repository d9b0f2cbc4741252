"""Settings, from files and the command line, as one frozen ``Config``.

settings   every setting with its type and default: ``Config``; ``load`` and ``parse`` make one
sources    ``.properties``, TOML and ``key=value``, as flat text
parsers    the text of one setting to its value
"""

from mutator.config.settings import Config, load, parse

__all__ = ["Config", "load", "parse"]
