"""Contact gradients of many engines beside the derivative of the exact motion.

    .venv/bin/python experiments/contact_gradients

measures every engine that is installed, prints a table, and leaves what was measured and a page in
out/contact_gradients. Engines that want another environment are measured there, by its Python:

    .venv/bin/python experiments/contact_gradients --also OTHER/bin/python

Problems: `--exact` computes their exact answers anew and writes them, `--check` compares them with a second
computation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from itertools import product
from pathlib import Path

# As a folder that is run: the package, and what lies beside it, are found from the folder above.
if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from contact_gradients import measure, peers, scene, table


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser("contact_gradients", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/contact_gradients"), help="folder for what is measured")
    parser.add_argument("--peers", nargs="+", choices=peers.ALL, default=list(peers.ALL), metavar="NAME")
    parser.add_argument("--problems", nargs="+", choices=scene.names(), default=scene.names(), metavar="NAME")
    parser.add_argument(
        "--also", nargs="+", default=[], metavar="PYTHON", help="other environments, with other engines"
    )
    parser.add_argument("--page", action="store_true", help="no measurements, only table and page")
    parser.add_argument("--smoke", action="store_true", help="one step, one setting")
    parser.add_argument("--alone", action="store_true", help="one engine, here, and neither table nor page")
    parser.add_argument("--exact", action="store_true", help="compute the exact answers, and write them")
    parser.add_argument("--check", action="store_true", help="compare the exact answers with a second computation")
    options = parser.parse_args(arguments)
    if options.exact or options.check:
        return (_write if options.exact else _check)(options.problems)
    if options.alone:
        _measure(options.peers[0], options)
        return 0
    # Each engine in a process of its own: one that dies takes no other with it.
    for python, name in product([sys.executable, *options.also], [] if options.page else options.peers):
        ended = subprocess.run([python, __file__, "--alone", *_passed(name, options)], check=False).returncode
        if ended:
            print(f"{name}: its process ended with {ended}; what it had measured before is kept", flush=True)
    found = measure.load(options.out, list(peers.ALL))
    print(table.text(found))
    try:
        from contact_gradients.page import page

        (options.out / "index.html").write_text(page(found), encoding="utf-8")
        print(f"{options.out / 'index.html'}")
    except (ImportError, OSError) as missing:
        print(f"no page: {missing}")
    return 0


def _measure(name: str, options: argparse.Namespace) -> None:
    try:
        peer = peers.peer(name)
    except (ImportError, OSError) as missing:
        print(f"{name}: left out, not installed here ({missing})", flush=True)
        return
    found = []
    for problem in map(scene.read, options.problems):
        for row in measure.rows(peer, problem, options.smoke):
            print(table.line(row), flush=True)
            found.append(row)
        # After each problem: what was measured is kept where the next one is interrupted.
        measure.save(found, peer, options.out / f"{_slug(name)}.json")
        _forget_programs()


def _forget_programs() -> None:
    """Free what JAX compiled: a process may have 65 530 parts of memory, and a hundred large programs take them all."""
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower())


def _passed(name: str, options: argparse.Namespace) -> list[str]:
    found = ["--out", str(options.out), "--peers", name, "--problems", *options.problems]
    return found + ["--smoke"] * options.smoke


def _write(names: list[str]) -> int:
    from decimal import Decimal

    from contact_gradients import exact

    for name in names:
        problem = scene.read(name)
        problem.document["exact"] = exact.solution(scene.read(name, Decimal))
        scene.write(problem)
        print(f"{name}: written", flush=True)
    return 0


def _check(names: list[str]) -> int:
    from contact_gradients import second_way

    worst = 0.0
    for name in names:
        off = second_way.disagreement(scene.read(name))
        print(f"{name:15} {off:.1e}", flush=True)
        worst = max(worst, off)
    return int(worst > 1e-8)


if __name__ == "__main__":
    sys.exit(main())
