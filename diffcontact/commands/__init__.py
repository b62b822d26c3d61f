"""The commands of `python -m diffcontact`, a file each: `HELP`, `add_arguments(parser)`, `run(options)`."""
