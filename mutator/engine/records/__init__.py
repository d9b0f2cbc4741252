"""The records engine, one Python tuple a record: plain functions."""
