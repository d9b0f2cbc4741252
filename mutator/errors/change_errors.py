"""The error catalogue of changed rows: exit code to the messages of its error kinds."""

CHANGES: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "changes.field": (
            "the rows have a field {name}, which changed rows have as well; rename the field, or leave out changes"
        ),
        "changes.none": (
            "{path}: has no changed rows, because its run did not write them. Set {changes=true}, or give mutator run "
            "--changes DIR, for the next one; two datasets are compared by: mutator diff OLD NEW"
        ),
        "changes.version": (
            "{path}: version {version} does not exist, so no changes up to it or after it do; the newest is {newest}"
        ),
        "changes.gap": (
            "{path}: version {version} has no changed rows ({why}); begin after it with --from {version}, or compare "
            "the versions: mutator diff {path}@{before} {path}@{version}"
        ),
    },
    4: {  # storage
        "changes.later": (
            "{path}: the changed rows cannot be put there ({why}), but the output is published and has them; put them "
            "there with: mutator changes {output} --files {path}"
        ),
    },
    5: {  # another run or a state conflict
        "changes.damaged": "{path}: the record of changed rows is damaged ({why}); restore the directory from a copy",
    },
}
