"""spark-submit entry of many tables in one application: the options of `mutator run-many`."""

import sys
from pathlib import Path

try:
    import mutator.cli
except ModuleNotFoundError as missing:
    if missing.name != "mutator":
        raise
    # In a checkout without an installed package: spark-submit puts jobs/ on the path, not the directory around it.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    import mutator.cli

if __name__ == "__main__":
    sys.exit(mutator.cli.run_many(sys.argv[1:]))
