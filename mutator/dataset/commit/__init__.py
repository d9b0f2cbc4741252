"""From files that nobody sees to a dataset that everybody reads, in one step."""
