"""The tests of mutator: a package, because one of that name may be installed."""
