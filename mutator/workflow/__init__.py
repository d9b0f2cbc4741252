"""Runs that repeat: a directory workflow, many tables, one partition after the other."""
