"""File formats: how each is probed, read and written."""
