"""Runners: what executes an agent. Each takes what is asked and gives a reply.

`asking` has the values, `command` runs a program, `callables` a function, `scripted` a script;
`declared` makes one from what a relay file says. `processes` and `guard` keep programs in bounds.
"""
