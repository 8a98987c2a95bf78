"""What the hosts of coding agents get: one table, and files that are edited and restored."""
