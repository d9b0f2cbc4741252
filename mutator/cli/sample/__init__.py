"""Make sample data: products and sales, and the upserts and deletes that follow them.

Every function is an iterator of rows: `bytes` without line end, fields joined by a comma.

    products   ID,category,brand,price,inventory,timestamp
               VR8NCNE7DV,tablet,samsung,279,88,1425931207
    with code  ID,category,brand,price,op code,inventory,timestamp
               VR8NCNE7DV,tablet,samsung,279,U,82,1427759321
    sales      sell_id,acct_id,change_ts,item,quantity,amount,store_id,create_date
               1001,AC0042,2015-03-30T11:05:07.250,laptop,2,1118.00,S3,2015-03-29

Rules:
(A) Rows depend on the seed, the arguments and the master's records alone: never on the clock, the
    Python version or the order of the master's rows.
(B) A master is read once, and what is kept of it is bounded by the number of mutations asked for.
    Several versions of a record may follow each other (a master and its earlier feeds, chained): the newest counts.
(C) The records of one call are distinct, and each is newer than every row of its master.
(D) An inserted ID is in no row of the master.

(A) rests on `random()` alone: it is the only method whose sequence Python promises to keep.
"""

from __future__ import annotations

from mutator.cli.sample.draw import CATALOGUE
from mutator.cli.sample.products import (
    OP_CODE_ORDINAL,
    PRODUCT_COLUMNS,
    delete,
    delete_with_op_code,
    new,
    new_with_op_code,
    upsert,
    upsert_with_op_code,
)
from mutator.cli.sample.sales import SALES_COLUMNS, delete_sales, new_sales, upsert_sales

__all__ = [
    "CATALOGUE",
    "OP_CODE_ORDINAL",
    "PRODUCT_COLUMNS",
    "SALES_COLUMNS",
    "delete",
    "delete_sales",
    "delete_with_op_code",
    "new",
    "new_sales",
    "new_with_op_code",
    "upsert",
    "upsert_sales",
    "upsert_with_op_code",
]
