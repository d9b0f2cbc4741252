"""Merge a split feed partition by partition, a run for each: the loop that operators write around ``mutator run``.

    pair     the partition directories of a master with those of a split feed
    merge    each partition that the feed touches, in a run of its own, whose output appears complete or not at all
    carry    every other partition: hard links if it is a managed master, else a run without a feed
    publish  the whole output under its name, once all partitions are there

Partitions are made in a hidden directory beside the output. A loop that was stopped or failed resumes there: finished
partitions are not merged again. (On a storage that cannot rename, that directory is the output itself, and ``_SUCCESS``
marks it as complete.) A record must not move to another partition: each run sees only its own partition.
"""

import posixpath
import time
from collections.abc import Callable
from dataclasses import replace

from mutator.config import Config
from mutator.dataset import manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.manifest import Manifest
from mutator.dataset.partition_index import IN_PATH
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.errors.failpoints import failpoint
from mutator.pipeline.merge import run
from mutator.pipeline.runners import Engine
from mutator.rules import file_names
from mutator.storage import Storage, located, located_to_write, storage_for
from mutator.storage.registry import same_storage
from mutator.workflow.partitions.pairs import inputs_of, pairs_of
from mutator.workflow.partitions.report import PartitionRun, PartitionRuns
from mutator.workflow.partitions.work import WorkDirectory


def run_partitions(
    config: Config,
    merge_on: Engine,
    *,
    master: str,
    feed: str,
    output: str,
    engine: str = "auto",
    tell: Callable[[PartitionRun], None] = lambda _: None,
) -> PartitionRuns:
    """Merge a split feed into a master, a run for each partition that it touches.

    master: a directory of partition directories, each a master of its own, managed or not. feed: a directory of the
    same shape. output: a path that must not exist; a call that was stopped is resumed. tell: called with each partition
    when it is done. Raises MutatorError; finished partitions are kept for the next call.
    """
    started = time.monotonic()
    config = _config_of_partitions(config)
    storage, target = located_to_write(output)
    (_, old), (_, new) = located(master), located(feed)
    _check_fields(old)
    pairs = pairs_of(config, old, new)
    with WorkDirectory(storage, target, inputs_of(config, old, new, pairs)) as work:
        done, warnings = [], list(config.warnings)
        if not any(fresh for _, fresh in pairs.values()):
            warnings.append(f"nothing to merge: {without_secrets(feed)} has no feed files")
        for directory, (own, fresh) in pairs.items():
            path = posixpath.join(work.path, directory)
            known = _manifest_at(storage, path)
            before = known is not None
            if known is None and not (fresh is None and own is not None and _link_master(own, path)):
                merging = config if own is not None else replace(config, allow_empty_master=True)
                source = own or posixpath.join(old, directory)
                report = run(merge_on, merging, master=source, feed=fresh or (), output=path, engine=engine)
                warnings += [f"{directory}: {text}" for text in report.warnings if text not in config.warnings]
            known = _manifest_at(storage, path)
            assert known is not None
            if fresh is None:
                counts = {"output rows": sum(part.rows for part in known.files)}
                done.append(PartitionRun(directory, "carried", counts, before))
            else:
                done.append(PartitionRun(directory, "merged", known.commit.counts, before))
            tell(done[-1])
            failpoint("runs.partition.done")
        work.publish(done)
    return PartitionRuns(
        without_secrets(master),
        without_secrets(feed),
        without_secrets(output),
        tuple(done),
        tuple(warnings),
        round(time.monotonic() - started, 3),
    )


def _config_of_partitions(config: Config) -> Config:
    """Return the configuration of the run of one partition.

    Raises ConfigError for a full snapshot, and for an overwrite of everything: partitions that the feed lacks are kept.
    """
    if config.full:
        faults = "a partition that the snapshot lacks would stay; split nothing, and merge the snapshot as a whole"
        raise error("config", where="sync.mode=full", faults=faults)
    if config.write_operation == "insert_overwrite_table":
        why = "a partition that the feed lacks would stay"
        cure = "set insert_overwrite, or overwrite the whole master with mutator run --partitioned-by"
        raise error("overwrite.refused", operation=config.write_operation, why=why, cure=cure)
    # A split feed file has no control file beside it, and the files of other sequences may be in other partitions.
    config = replace(config, control_suffix=None, sequence_gaps="ignore")
    # A partition is a master without partitions; the settings of one run for all may be in the same file.
    return replace(config, partitioned_by=(), key_scope=None)


def _check_fields(master: str) -> None:
    """Raise ConfigError for a master that one run wrote, whose files lack the fields that each partition shares."""
    known = _manifest_at(storage_for(master), master)
    in_path = () if known is None else known.spec.get(IN_PATH, ())
    if in_path:
        raise error("partition.in.path", path=master, fields=", ".join(in_path))


def _manifest_at(storage: Storage, path: str) -> Manifest | None:
    """Return the manifest of a finished partition; None if it is not there yet."""
    return read_manifest(storage, path) if storage.stat(posixpath.join(path, manifest.PATH)) is not None else None


def _link_master(master: str, path: str) -> bool:
    """Link all files of a managed master to a path that must not exist; return False if that cannot be done."""
    storage = storage_for(path)
    if not storage.renames or not same_storage(master, path):
        return False
    known = read_manifest(storage, master)
    if known is None:
        return False
    problems = differing_parts(storage, master, known.parts())
    if problems:
        raise error("manifest.files", path=master, what=file_names.first_few(problems))
    above, name = posixpath.split(path)
    staged = posixpath.join(above, f".{name}.carried")
    storage.remove(staged)
    names = [*(part.path for part in known.parts()), manifest.PATH]
    others = (SUCCESS, *([known.copy] if known.copy is not None else []))
    names += [name for name in others if storage.stat(posixpath.join(master, name)) is not None]
    for directory in sorted({posixpath.dirname(name) for name in names}):
        storage.make_directory(posixpath.join(staged, directory))
    for name in names:
        if not storage.link_new(posixpath.join(master, name), posixpath.join(staged, name)):
            storage.remove(staged)
            return False
    for directory in sorted({posixpath.dirname(name) for name in names}):
        storage.sync(posixpath.join(staged, directory))
    failpoint("runs.linked")
    storage.rename_new(staged, path)
    return True
