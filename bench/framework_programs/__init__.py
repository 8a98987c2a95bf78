"""Programs for `framework_job`, one for each framework."""
