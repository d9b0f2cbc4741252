"""Recognize plausible mistakes of configuration in the first rows of the inputs, before anything is merged."""
