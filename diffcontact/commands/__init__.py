"""The commands of `python -m diffcontact`, a file each.

A command's file has `HELP`, one line for `--help`; `add_arguments(parser)`; and `run(options) -> ExitCode`.

cli          the command line itself
complaint    how a command ends
options      options that several have, and what they say of a scene
output       where results go, and what is written over
cache        compiled programs, kept from one run to the next
"""
