"""The version of the package: its only definition, which ``setup.cfg`` reads, too."""

VERSION = "0.1.0"
