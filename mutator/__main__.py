"""``python -m mutator``: the same as the command ``mutator``."""

from mutator.cli import entry

if __name__ == "__main__":
    entry()
