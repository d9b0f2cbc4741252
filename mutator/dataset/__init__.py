"""A dataset on disk, and how it is committed."""
