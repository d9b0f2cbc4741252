"""The runner on this machine: in this process, or in several."""
