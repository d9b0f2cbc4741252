"""Scripted runs, one partition at a time."""
