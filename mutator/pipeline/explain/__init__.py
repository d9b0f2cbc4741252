"""Why a record is what it is: the mutations of one key that can still be found, and what decided between them.

key            values that a user gives -> canonical bytes and hash
feed_reading   merged feed files that a user has -> how their rows are read
key_rows       files -> their rows that have the key
held           a dataset -> its record or tombstone of the key
key_decisions  what was held, and mutations -> outcomes, by the merge itself
place          what a master, a base or a table answers of its versions
walk           the versions of a place, and what is not known of them
answer         all of it, as text and as JSON
"""
