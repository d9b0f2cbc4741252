"""``python -m mutator.cli``."""

from mutator.cli.program import entry

if __name__ == "__main__":
    entry()
