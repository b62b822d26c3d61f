"""Find the working set of a projection by machine code, or in pure JAX where there is none.

`DIFFCONTACT_KERNEL` chooses: "native", where it is available, or "jax".
"""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
import warnings
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.qp import working_set as in_jax

VARIABLE = "DIFFCONTACT_KERNEL"
CHOICES = ("jax", "native")
# A first fit takes as long with the kernel as without, after half a minute of compilation, once per machine.
DEFAULT = "jax"


def find_working_set(mass, G, b, v) -> in_jax.WorkingSet:
    """Find the working set as `working_set` does, by the kernel where it can."""
    if not solves(mass):
        return in_jax.find_working_set(mass, G, b, v)
    from diffcontact.qp.kernel import primitive

    return primitive.find_working_set(mass, G, b, v)


def solves(mass) -> bool:
    """Tell whether the kernel solves projections with this mass: it knows masses (d,) only."""
    return mass.ndim == 1 and ready()


def ready() -> bool:
    """Tell whether the kernel is chosen and available, and JAX computes on a CPU."""
    return chosen() and jax.default_backend() == "cpu" and unavailable() is None


def chosen() -> bool:
    """Tell whether the kernel is wanted; ValueError for an unknown DIFFCONTACT_KERNEL."""
    choice = os.environ.get(VARIABLE) or DEFAULT
    if choice not in CHOICES:
        raise ValueError(f"{VARIABLE} is {choice!r}; expected one of {', '.join(CHOICES)}")
    return choice == "native"


def described() -> str:
    """Say in one line what finds the working sets on a CPU, and why."""
    if not chosen():
        return f"in JAX; {VARIABLE}=native asks for the kernel"
    reason = unavailable()
    return f"in JAX: {reason}" if reason else f"compiled by numba {version('numba')}"


@functools.cache
def unavailable() -> str | None:
    """Say in one line why there is no kernel, or None where it is ready."""
    reason = _obstacle()
    if reason and os.environ.get(VARIABLE) == "native":
        warnings.warn(f"{VARIABLE}=native, but there is no kernel: {reason}", stacklevel=2)
    return reason or None


def _obstacle() -> str:
    missing = [name for name in ("numba", "llvmlite") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed: pip install 'diffcontact[native]'"
    try:
        from diffcontact.qp.kernel import library

        library.register(library.handler_for(jnp.result_type(float)))
        # In a thread of its own nothing of what is being traced here is seen.
        failure: list[str] = []
        trial = threading.Thread(target=lambda: failure.append(_trial()))
        trial.start()
        trial.join()
        return failure[0] if failure else "its trial failed"
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _trial() -> str:
    """Say what is wrong with the result of a small problem, or nothing."""
    from diffcontact.qp.kernel import primitive

    dtype = jnp.result_type(float)
    one, two = np.ones(1, dtype), np.array([[-2.0], [2.0]], dtype)
    try:
        with jax.default_device(jax.devices("cpu")[0]):
            batch = jax.vmap(primitive.find_working_set, (None, None, None, 0))
            found = jax.jit(batch)(one, one[:, None], 0 * one, two)
            sound = found.step.tolist() == found.multipliers.tolist() == [[2.0], [0.0]] and not found.status.any()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "" if sound else "XLA calls it in a way that it does not know"
