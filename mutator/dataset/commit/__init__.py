"""From invisible files to a dataset that everybody reads, in one step."""
