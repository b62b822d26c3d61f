"""`python -m diffcontact new`: draft a scene from a recording."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path

from diffcontact.commands.options import path
from diffcontact.commands.outcome import ExitCode, file_of
from diffcontact.host.files import require_writable, write_new
from diffcontact.host.messages import one_line, say

HELP = "look at a recording and write a scene to start from"
EXAMPLE = "new RECORDING.csv --out out/mine.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE [--data RECORDING] [--out PLACE]"""
    parser.add_argument(
        "file",
        type=path,
        metavar="FILE",
        help="what a camera, a tracker or a telephone wrote, as text; with --data a model, MJCF or URDF",
    )
    parser.add_argument(
        "--data",
        type=path,
        metavar="RECORDING",
        help="of the model FILE, whose columns have names of its joints, bodies and sites: elbow [deg], tip x [mm]",
    )
    parser.add_argument(
        "--out",
        type=path,
        metavar="PLACE",
        help="folder, or a .toml file that does not exist; default: FILE's name with .toml, here",
    )


def run(options: argparse.Namespace) -> ExitCode:
    """Draft a scene and say what was understood."""
    # Here, so that no other command waits for scipy.signal, a third of a second.
    from diffcontact.scene.draft import draft, draft_of_model, survey

    usual = options.file.with_suffix(".toml").name
    out = Path(usual) if options.out is None else file_of(options.out, usual)
    if out.exists() or out.is_symlink():
        raise FileExistsError(errno.EEXIST, "exists already, expected a new file: --out PLACE", str(out))
    require_writable(out.parent)
    recording = options.data or options.file
    found = survey(recording)
    if options.data is None:
        what, text = draft(found, out.parent, str(out))
    else:
        what, text = draft_of_model(options.file, found, out.parent, str(out))
    write_new(out, text)
    say(f"{recording}: {one_line(found.understood or 'a CSV')}")
    for remark in found.remarks:
        say(f"  {one_line(remark)}")
    say(f"taken for {one_line(what)}; wrote {out}, where each guess says that it is one")
    say(f"then: python -m diffcontact fit {out}")
    return ExitCode.DONE
