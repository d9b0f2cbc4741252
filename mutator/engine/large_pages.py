"""Large pages for the memory of worker processes."""

import os

VARIABLE = "GLIBC_TUNABLES"
_LARGE_PAGES = "glibc.malloc.hugetlb"


def large_pages() -> str:
    """Return GLIBC_TUNABLES with a request for large pages; a request by the user wins.

    A worker works in arrays of a few MB. Where the system gives large pages to programs that ask for them, a merge
    takes about 5 % less time, and no more memory: there are fewer pages to clear one by one, and to look up. glibc
    reads the variable when a process starts. Versions before 2.35, and other C libraries, ignore it.
    """
    given = os.environ.get(VARIABLE, "")
    return given if _LARGE_PAGES in given else ":".join(filter(None, (given, f"{_LARGE_PAGES}=1")))
