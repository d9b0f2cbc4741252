"""A feed, split by partitions: ``store_id=12/ups_7.txt`` has the rows of ``ups_7.txt`` that belong there.

files      the feed files → their rows, unchanged, and the values of the partition fields
write      rows → a file of the same name and format in each partition
splitting  all steps in order; ``dataset.split_record`` lists the written files
"""

from mutator.workflow.partitions.split.splitting import SplitFeed, split_feed

__all__ = ["SplitFeed", "split_feed"]
