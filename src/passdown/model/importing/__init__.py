"""What people already have, read into values: ADRs, beads, the memory of MCP. Pure, no files."""
