"""Settings, from files and the command line, as one frozen ``Config``.

parsers        the text of one setting to its value
forms          the parser of a value, and its JSON schema
definitions    every setting: its names, form, default and meaning, and the attribute of a spec that has its value
settings       the values of all settings: ``Config`` and its specs, one for each question of a run
sources        ``.properties``, TOML and ``key=value`` to flat text
conflicts      settings that are valid alone and wrong together
audience       the names of settings in messages: on the command line, in a file, in Python
feed_settings  the settings that decide how a feed is read and merged
reader         all of these in turn: ``load`` and ``parse`` return a ``Config``
reference      the settings as a table, as text and as a JSON schema
"""

from mutator.config.reader import load, parse
from mutator.config.settings import Config

__all__ = ["Config", "load", "parse"]
