"""The command line: python -m diffcontact fit | check | ensemble | demo | doctor

Exit codes: 0 done, 1 doctor found something broken, 2 bad input (one line on stderr says which), 3 the fit did not
converge, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

from diffcontact.demo import demo
from diffcontact.doctor import doctor
from diffcontact.examine import examine
from diffcontact.job import ExitCode, complain, fit_and_report
from diffcontact.scene import read_study
from diffcontact.vary import RANGE, parse_times, parse_variation, vary


def main(arguments: Sequence[str] | None = None) -> int:
    r"""Run one command; `arguments` are those of the process by default. Returns the exit code.

    Example:
        >>> import contextlib, io
        >>> with contextlib.redirect_stderr(io.StringIO()) as complaint:
        ...     code = main(["fit", "no/such/scene.toml"])
        >>> code, complaint.getvalue()
        (2, 'no/such/scene.toml: No such file or directory\n')
    """
    options = _parser().parse_args(arguments)
    # Parameters are wanted to more digits than float32 has; a library must not decide that, a program must.
    jax.config.update("jax_enable_x64", True)
    try:
        return int(options.run(options))
    except (ValueError, OSError, ModuleNotFoundError) as error:
        return int(complain(error))
    except KeyboardInterrupt:
        print(f"interrupted; {options.interrupted}", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)


def _fit(options: argparse.Namespace) -> ExitCode:
    study = read_study(options.scene, options.data)
    return fit_and_report(study, Path(options.out) if options.out else study.scene.folder)


def _check(options: argparse.Namespace) -> ExitCode:
    print(examine(read_study(options.scene, options.data)))
    return ExitCode.DONE


def _ensemble(options: argparse.Namespace) -> ExitCode:
    return vary(
        options.scene,
        [parse_variation(text) for text in options.vary],
        Path(options.out),
        files=options.data,
        times=None if options.times is None else parse_times(options.times),
        chunk=options.chunk,
    )


def _demo(options: argparse.Namespace) -> ExitCode:
    return demo(Path(options.out))


def _doctor(options: argparse.Namespace) -> ExitCode:
    del options
    return doctor()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
        command.add_argument("scene", metavar="SCENE", help="TOML document")
        command.add_argument(
            "--data", nargs="+", action="extend", default=[], metavar="FILE", help="one CSV file per run, taken jointly"
        )
    fit.add_argument("--out", metavar="DIR", help="where result.json and report.html go; default: as the scene says")
    fit.set_defaults(run=_fit)
    lanes.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar=f"NAME={RANGE}",
        help="COUNT values of a parameter, or of its element NAME[0], from LOW to HIGH; several --vary form a grid",
    )
    lanes.add_argument("--out", required=True, metavar="FILE", help="HDF5 file; one that is there already is resumed")
    lanes.add_argument("--times", metavar=RANGE, help="when; default: at the times of the first run")
    lanes.add_argument("--chunk", type=int, metavar="N", help="lanes at once; default: 256 for each CPU device")
    show = commands.add_parser("demo", help="simulate two carts, fit them, show truth beside estimate")
    show.add_argument("--out", metavar="DIR", default="out/demo", help="default: %(default)s")
    show.set_defaults(run=_demo)
    check = commands.add_parser("doctor", help="check versions, devices, precision and speed")
    check.set_defaults(run=_doctor)
    return parser
