"""The command line: `passdown VERB`. A module holds the verbs of one idea and loads when needed."""
