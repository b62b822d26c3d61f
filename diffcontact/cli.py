"""The command line: python -m diffcontact fit | check | ensemble | demo | doctor

Exit codes: 0 done, 1 doctor found something broken or the program itself failed (one line says where the traceback is),
2 bad input (one line on stderr says which), 3 the fit did not converge, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import jax

from diffcontact.commands.complaint import ExitCode, about, complain, unforeseen

# What the commands need is imported when they run, where an interruption is caught.

RANGE = "LOW:HIGH:COUNT"


def main(arguments: Sequence[str] | None = None) -> int:
    r"""Run one command; `arguments` are those of the process by default. Returns the exit code.

    Example:
        >>> import contextlib, io
        >>> with contextlib.redirect_stderr(io.StringIO()) as complaint:
        ...     code = main(["fit", "no/such/scene.toml"])
        >>> code, complaint.getvalue()
        (2, 'no/such/scene.toml: No such file or directory\n')
    """
    interrupted = "no file was left half-written"
    try:
        _speak_any_alphabet()
        options = _parser().parse_args(arguments)
        interrupted = options.interrupted
        # Parameters are wanted to more digits than float32 has; a library must not decide that, a program must.
        jax.config.update("jax_enable_x64", True)
        with warnings.catch_warnings():
            # numpy's, of numbers that overflow: what came of them is checked and told by file and key.
            warnings.simplefilter("ignore", RuntimeWarning)
            code = int(options.run(options))
        sys.stdout.flush()
        return code
    except OSError as error:
        # All files are named where they are read and written.
        return int(complain(error if error.filename is not None else _without_stdout(error)))
    except (ValueError, MemoryError, ModuleNotFoundError) as error:
        return int(complain(error))
    except KeyboardInterrupt:
        print(f"interrupted; {interrupted}", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except Exception as error:
        return int(unforeseen(error))


def _speak_any_alphabet() -> None:
    """A title that the terminal cannot show must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _without_stdout(error: OSError) -> OSError:
    """What printing ended with; nothing more is printed, not even what Python still holds when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OSError(error.errno, error.strerror, "standard output")


def _fit(options: argparse.Namespace) -> ExitCode:
    from diffcontact.commands.fit import fit_and_report
    from diffcontact.scene import read_study

    study = read_study(options.scene, options.data)
    return fit_and_report(study, options.out or study.scene.folder)


def _check(options: argparse.Namespace) -> ExitCode:
    from diffcontact.commands.check import examine
    from diffcontact.scene import read_study

    study = read_study(options.scene, options.data)
    with about(study.scene.file):
        told = examine(study)
    print(told)
    return ExitCode.DONE


def _ensemble(options: argparse.Namespace) -> ExitCode:
    from diffcontact.commands.ensemble import parse_times, parse_variation, vary

    return vary(
        options.scene,
        [parse_variation(text) for text in options.vary],
        options.out,
        files=options.data,
        times=None if options.times is None else parse_times(options.times),
        chunk=options.chunk,
    )


def _demo(options: argparse.Namespace) -> ExitCode:
    from diffcontact.commands.demo import demo

    return demo(options.out)


def _doctor(options: argparse.Namespace) -> ExitCode:
    from diffcontact.commands.doctor import doctor

    del options
    return doctor()


class _Parser(argparse.ArgumentParser):
    """Says what is wrong on one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{self.prog}: {message}; see --help")


def _path(text: str) -> Path:
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r}, expected the name of a file or folder")
    return Path(text)


def _count(text: str) -> int:
    from diffcontact.scene.numerals import whole

    try:
        return whole(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m diffcontact", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(interrupted="no file was left half-written")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    fit = commands.add_parser("fit", help="fit the parameters of a scene to measured runs")
    hypotheses = commands.add_parser("check", help="check the hypotheses of the convergence theorems on a scene's runs")
    hypotheses.set_defaults(run=_check)
    lanes = commands.add_parser("ensemble", help="simulate a scene for many values of its parameters")
    lanes.set_defaults(run=_ensemble, interrupted="the same command goes on from there")
    for command in (fit, hypotheses, lanes):
        command.add_argument("scene", type=_path, metavar="SCENE", help="TOML document")
        command.add_argument(
            "--data",
            type=_path,
            nargs="+",
            action="extend",
            default=[],
            metavar="FILE",
            help="one CSV file per run, taken jointly",
        )
    fit.add_argument(
        "--out", type=_path, metavar="DIR", help="where result.json and report.html go; default: as the scene says"
    )
    fit.set_defaults(run=_fit)
    lanes.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar=f"NAME={RANGE}",
        help="COUNT values of a parameter, or of its element NAME[0], from LOW to HIGH; several --vary form a grid",
    )
    lanes.add_argument(
        "--out", type=_path, required=True, metavar="FILE", help="HDF5 file; one that is there already is resumed"
    )
    lanes.add_argument("--times", metavar=RANGE, help="when; default: at the times of the first run")
    lanes.add_argument("--chunk", type=_count, metavar="N", help="lanes at once; default: 256 for each CPU device")
    show = commands.add_parser("demo", help="simulate two carts, fit them, show truth beside estimate")
    show.add_argument("--out", type=_path, metavar="DIR", default=Path("out/demo"), help="default: %(default)s")
    show.set_defaults(run=_demo)
    check = commands.add_parser("doctor", help="check versions, devices, precision and speed")
    check.set_defaults(run=_doctor)
    return parser
