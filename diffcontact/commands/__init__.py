"""The commands of `python -m diffcontact`: a file each, named after its command."""
