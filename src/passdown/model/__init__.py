"""Values, documents and rules: no input, no output, no clock."""
