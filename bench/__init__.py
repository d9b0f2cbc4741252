"""Side-by-side benchmarks: mutator and other systems merge, or transfer, the same bytes.

=================== ======================================================================
``layout``          the fields of the rows, by format
``data``            seeded master and feed
``partitioned``     a master in Hive-style directories, and a feed that touches a few of them
``tables``          many small masters and feeds
``columns``         the same rows as Parquet, ORC and Avro, and back
``digest``          an order-independent digest of rows
``workload``        sizes, shares of mutations and formats of each workload
``contenders``      the systems that merge or transfer, one module each; ``catalogue`` lists them
``child``           the process of one contender, driven by JSON lines
``participant``     starts, commands and stops such a process
``environment``     virtual environments for contenders that need another Spark
``memory``          the memory of a tree of processes, from /proc
``machine``         cores, memory, directories for files
``contest``         alternating rounds over all contenders
``figures``         raw results -> medians, ratios, targets
``table_figures``   targets, steps and bytes of versioned tables
``storage``         alternating rounds of writing to a server and reading from it
``traffic``         seconds of the transfers -> speeds, shares, targets
``report``          figures -> table, Markdown, JSON
``plot``            figures -> PNG
=================== ======================================================================
"""
