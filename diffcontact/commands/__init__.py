"""The commands of `python -m diffcontact`: a file each, named after its command.

Such a file has `HELP`, one line for `--help`; `add_arguments(parser)`; and `run(options) -> ExitCode`.
"""
