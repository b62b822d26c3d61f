"""`python -m diffcontact scene`: every key that a scene may hold."""

from __future__ import annotations

import argparse

from diffcontact.commands.complaint import ExitCode
from diffcontact.host.messages import say
from diffcontact.scene.reference import reference

HELP = "print every key that a scene may hold, and every parameter of the ready-made systems"
EXAMPLE = "scene"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(options: argparse.Namespace) -> ExitCode:
    """Print the reference of scenes."""
    del options
    say(*reference().splitlines())
    return ExitCode.DONE
