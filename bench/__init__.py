"""Side-by-side benchmarks: the same bytes merged, or moved, by mutator and by what one would use instead.

=================== ======================================================================
``layout``          how the rows look
``data``            seeded master and feed
``partitioned``     a master in Hive-style directories, and a feed that touches few of them
``tables``          many small masters and feeds
``columns``         the same rows as Parquet, ORC and Avro, and back
``digest``          an order-independent digest of rows
``workload``        sizes, shares, formats: what is merged into what
``contenders``      who merges, or moves: one module a system; ``catalogue`` lists them all
``child``           the process of one contender, driven by JSON lines
``participant``     the other end of those lines
``environment``     virtual environments for those that need another Spark
``memory``          what a tree of processes holds, from /proc
``machine``         cores, memory, where files are put
``contest``         alternating rounds over all contenders
``figures``         raw results -> medians, ratios, targets
``storage``         alternating rounds of writing to a server, and reading from it
``traffic``         their seconds -> speeds, shares, targets
``report``          figures -> table, Markdown, JSON
``plot``            figures -> PNG
=================== ======================================================================
"""
