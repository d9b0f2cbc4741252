"""Merge a split feed with spark-submit, one run per partition; the options are those of `mutator partition-runs`."""

import sys
from pathlib import Path

try:
    import mutator.cli
except ModuleNotFoundError as missing:
    if missing.name != "mutator":
        raise
    # The package is not installed: spark-submit puts jobs/ on the path of a checkout, but not the checkout itself.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    import mutator.cli

if __name__ == "__main__":
    mutator.cli.job_entry("partition_runs.py")
