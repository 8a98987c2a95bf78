"""Rules by layer: which apply to a prompt, how many fit, and what is left out. Pure."""
