"""The blocks engine, an Arrow block at a time: plain functions."""
