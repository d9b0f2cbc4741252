"""Side-by-side benchmarks: the same bytes merged, or moved, by mutator and by other systems.

=================== ======================================================================
``layout``          the fields of the rows, by format
``data``            seeded master and feed
``partitioned``     a master in Hive-style directories, and a feed that touches few of them
``tables``          many small masters and feeds
``columns``         the same rows as Parquet, ORC and Avro, and back
``digest``          an order-independent digest of rows
``workload``        sizes, shares, formats: what is merged into what
``contenders``      the systems that merge or move, one module each; ``catalogue`` lists them
``child``           the process of one contender, driven by JSON lines
``participant``     the other end of those lines
``environment``     virtual environments for contenders that need another Spark
``memory``          the memory of a tree of processes, from /proc
``machine``         cores, memory, directories for files
``contest``         alternating rounds over all contenders
``figures``         raw results -> medians, ratios, targets
``storage``         alternating rounds of writing to a server, and reading from it
``traffic``         seconds of storage -> speeds, shares, targets
``report``          figures -> table, Markdown, JSON
``plot``            figures -> PNG
=================== ======================================================================
"""
