"""Settings for tests whose small or random data have more deletes, duplicates or rejects than a run allows."""

NO_LIMITS = {
    "max.delete.fraction": "1",
    "max.absence.fraction": "1",
    "max.duplicate.fraction": "1",
    "max.reject.fraction": "1",
}
