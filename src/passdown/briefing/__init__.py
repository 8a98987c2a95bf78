"""Words for the next agent, within a budget. Pure: facts in, text out."""
