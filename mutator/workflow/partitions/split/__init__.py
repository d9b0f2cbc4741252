"""A feed, split by partitions: ``store_id=12/ups_7.txt`` has the rows of ``ups_7.txt`` that belong there.

files   which feed files there are, and which of their fields give the partition
rows    a feed file → its rows, byte for byte, and the values of the partition fields
write   rows → files of the same name and file format, one a partition
split   all of it, in order; ``dataset.split_record`` says which file went where
"""

from mutator.workflow.partitions.split.split import SplitFeed, split_feed

__all__ = ["SplitFeed", "split_feed"]
