"""Who merges: a module a system. Each is imported only in the process that it runs in."""
