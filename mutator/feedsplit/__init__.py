"""A feed, split by partitions: ``store_id=12/ups_7.txt`` has the rows of ``ups_7.txt`` that belong there.

files   which feed files there are, and where in their rows the partition fields stand
rows    a feed file -> its rows, just as they are, and the values of the partition fields
write   rows -> files of the same name and kind, one a partition
run     all of it, in order; ``splitrecord`` is what is told of it
"""

from mutator.feedsplit.run import SplitFeed, split_feed

__all__ = ["SplitFeed", "split_feed"]
