"""Make sample data: products and sales, and the upserts and deletes that follow them.

Each function returns an iterator of rows: `bytes` without a line end, fields joined by a comma.

    products   ID,category,brand,price,inventory,timestamp
               VR8NCNE7DV,tablet,samsung,279,88,1425931207
    with code  ID,category,brand,price,op code,inventory,timestamp
               VR8NCNE7DV,tablet,samsung,279,U,82,1427759321
    sales      sell_id,acct_id,change_ts,item,quantity,amount,store_id,create_date
               1001,AC0042,2015-03-30T11:05:07.250,laptop,2,1118.00,S3,2015-03-29

Rules:
(A) Rows depend only on the seed, the arguments and the master's records: never on the clock, the Python version or the
    order of the master's rows.
(B) A master is read once, and the memory needed is bounded by the number of mutations. A master may hold several
    versions of a record (a master and its earlier feeds, chained): the newest counts.
(C) The records of one call are distinct, and each is newer than every row of its master.
(D) An inserted ID is in no row of the master.

(A) rests on `random()` alone: it is the only method whose sequence Python promises to keep.

generator   new rows, upserts and deletes of any table
tables      the two tables: their columns, IDs, times and values
"""

from mutator.cli.sample.generator import delete, new, upsert
from mutator.cli.sample.tables import OP_CODE_ORDINAL, PRODUCTS, SALES

__all__ = ["OP_CODE_ORDINAL", "PRODUCTS", "SALES", "delete", "new", "upsert"]
