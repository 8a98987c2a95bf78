"""When a host calls: tell its agent what it needs, keep what it did, never block it."""
