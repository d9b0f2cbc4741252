"""The failpoints of the package: the tests fail at each of them."""

# In the order in which a run passes them; the tests walk this list.
FAILPOINTS = (
    "stage.swept",
    "stage.created",
    "task.started",
    "task.data.opened",
    "storage.written",
    "storage.linked",
    "task.data.written",
    "task.order.written",
    "task.tombstones.written",
    "task.changes.opened",
    "task.changes.written",
    "task.carried",
    "task.rejected.written",
    "stage.merged",
    "stage.verified",
    "stage.files.moved",
    "stage.litter.removed",
    "stage.copy.written",
    "stage.manifest.written",
    "stage.success.written",
    "publish.renamed",
    "publish.done",
)

# Those of a partitioned master, between ``stage.created`` and ``stage.merged``.
PARTITION_FAILPOINTS = (
    "merge.touched",
    "merge.directories",
    "task.filters.written",
    "carry.linked",
    "carry.done",
    "carry.copied",
    "merge.packs.joined",
)

# Those of filters of the feed's keys, which only runs of a workflow write.
FEED_FILTER_FAILPOINTS = ("task.feed.filters.written",)

# Those of storages on which a process cannot claim a directory.
REMOTE_FAILPOINTS = ("stage.announced", "publish.symlinks", "archive.marked", "commit.settled")

# Those of the workflow, before and after those of its run.
WORKFLOW_FAILPOINTS = (
    "lock.created",
    "lock.cleared",
    "recover.published",
    "recover.done",
    "publish.found",
    "publish.passage",
    "publish.empty.removed",
    "publish.first.rename",
    "publish.master",
    "claim.journaled",
    "claim.directory",
    "claim.moved",
    "claim.marker",
    "claim.control",
    "claim.control.left",
    "claim.done",
    "merge.done",
    "verify.done",
    "commit.begin",
    "commit.done",
    "publish.version.done",
    "archive.master",
    "archive.directory",
    "archive.moved",
    "archive.working.removed",
    "archive.pruned",
    "archive.removed",
    "archive.done",
    "return.aside",
    "return.moved",
    "return.marker",
    "return.control",
    "return.directory",
    "return.done",
    "recover.abandoning",
    "recover.abandoned",
    "recover.returned",
    "recover.listed",
    "recover.filters.removed",
    "recover.output.hidden",
    "recover.output.removed",
    "recover.swept",
    "recover.ended",
    "restore.journaled",
    "restore.committed",
)

# Those of a table: staging, commit, and cleanup.
HIVE_FAILPOINTS = (
    "hive.shadow.created",
    "hive.written",
    "hive.shadow.dropped",
    "hive.staged",
    "hive.statistics.removed",
    "hive.partitions.created",
    "hive.switched",
    "hive.old.removed",
    "hive.partitions.dropped",
    "hive.retire.removed",
    "hive.discard.partitions",
    "hive.discard.shadow",
    "hive.discard.removed",
)
