"""The command line: python -m diffcontact new | simulate | fit | design | check | ensemble | demo | scene | doctor

Exit codes: 0 done, 1 doctor found something broken or the program itself failed (one line says where the traceback is),
2 bad input (a line on stderr for each mistake), 3 the fit did not converge, or a motion may be wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

import jax
from threadpoolctl import threadpool_limits

from diffcontact.commands import check, demo, design, doctor, ensemble, fit, new, scene, simulate
from diffcontact.commands.cache import use_cache
from diffcontact.commands.outcome import ExitCode, complain, unforeseen
from diffcontact.ensemble.tasks import LostChunkError
from diffcontact.host.interruption import heeded
from diffcontact.host.messages import say
from diffcontact.host.progress import shown

NEXT = """\
diffcontact finds the parameters of motions with contact, impacts and dry friction.

Nothing measured yet   python -m diffcontact demo                     carts that never existed: simulated, fitted, shown
A recording            python -m diffcontact new RECORDING.csv        look at it, write a scene to start from
A scene, a TOML file   python -m diffcontact fit SCENE.toml           parameters, error bars, a verdict, a page
                       python -m diffcontact simulate SCENE.toml      the motion, as a page that plays
                       python -m diffcontact design SCENE.toml        what to film next
                       python -m diffcontact ensemble --help          the motion for thousands of parameters
                       python -m diffcontact check SCENE.toml         do the convergence theorems apply?
What a scene may say   python -m diffcontact scene
Something is odd       python -m diffcontact doctor                   versions, devices, a test of the installation

python -m diffcontact COMMAND --help lists the options of a command, with an example.
--out names the folder of the results; where a command writes one file, a name with an ending is that file."""
# What somebody sets to have it otherwise.
THREADS = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"
NOTHING_HALF_WRITTEN = "no file was left half-written"


def main(arguments: Sequence[str] | None = None) -> int:
    r"""Run one command and return its exit code.

    Example:
        >>> import contextlib, io
        >>> with contextlib.redirect_stderr(io.StringIO()) as complaint:
        ...     code = main(["fit", "no/such/scene.toml"])
        >>> code, complaint.getvalue()
        (2, 'no/such/scene.toml: No such file or directory\n')
    """
    interrupted = NOTHING_HALF_WRITTEN
    try:
        _speak_any_alphabet()
        options = _parser().parse_args(arguments)
        if options.run is None:
            say(*NEXT.splitlines())
            return int(ExitCode.DONE)
        interrupted = options.interrupted
        # Parameters are wanted to more digits than float32 has; a library must not decide that, a program must.
        jax.config.update("jax_enable_x64", True)
        use_cache()
        _multiply_by_one_thread()
        # Tracing makes millions of small objects that live on: looking through them for cycles takes a fifth of a fit.
        gc.set_threshold(100_000, 50, 10)
        with warnings.catch_warnings():
            # numpy's, of numbers that overflow: what came of them is refused by file and key.
            warnings.simplefilter("ignore", RuntimeWarning)
            with shown(not options.quiet), heeded(lambda: f"interrupted; {interrupted}"):
                code = int(options.run(options))
        sys.stdout.flush()
        return code
    except OSError as error:
        # All files are named where they are read and written.
        return int(complain(error if error.filename is not None else _without_stdout(error)))
    except (ValueError, MemoryError, ModuleNotFoundError, LostChunkError) as error:
        return int(complain(error))
    except KeyboardInterrupt:
        say(f"interrupted; {interrupted}", error=True)
        return int(ExitCode.INTERRUPTED)
    except Exception as error:
        return int(unforeseen(error))


def _multiply_by_one_thread() -> None:
    """Multiply by one thread: others of OpenBLAS wait busily. A fit of two carts takes 5.7 s of processor time, 7.0 s
    with two threads."""
    if not any(variable in os.environ for variable in THREADS):
        threadpool_limits(1, "blas")


def _speak_any_alphabet() -> None:
    """A title that the terminal cannot show must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _without_stdout(error: OSError) -> OSError:
    """Name standard output in an error, and print nothing more."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OSError(error.errno, error.strerror, "standard output")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong on one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{self.prog}: {message}; see --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m diffcontact", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(run=None, interrupted=NOTHING_HALF_WRITTEN)
    commands = parser.add_subparsers(metavar="COMMAND")
    for command in (new, simulate, fit, design, check, ensemble, demo, scene, doctor):
        options = commands.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.HELP,
            description=f"{command.HELP[0].upper()}{command.HELP[1:]}.",
            epilog=f"example:\n  python -m diffcontact {command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        options.set_defaults(run=command.run, interrupted=NOTHING_HALF_WRITTEN)
        options.add_argument("--quiet", action="store_true", help="no progress on the terminal")
        command.add_arguments(options)
    return parser
