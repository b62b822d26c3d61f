"""Model one impact, as a table of velocities before and after it."""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from diffcontact.host.messages import shown
from diffcontact.system import System
from diffcontact.systems import laws

KINDS = {"ball": 1, "carts": 2, "body": 3}
# Rows of the gap: a ball that falls on a floor, two carts, the second one ahead; that of a body depends on its lever.
_ROWS = {"ball": np.array([1.0]), "carts": np.array([-1.0, 1.0])}


def single_impact(of: str = "ball", *, restitution: str = "constant", impact_law: str = "newton") -> System:
    r"""Make a ball, two carts or a body that moves freely but for one impact; q counts from its place.

    With w = N u, the velocity of the gap, and u(t) = u_0 before the impact::

        gap      g(q) = N q         ball  N = [1], M = 1          carts  N = [-1, 1], M = diag(mass_ratio, 1)
        body     q = (x, y, rho theta), M = 1, per unit of mass, with rho the radius of gyration and, in parts of it,
                 the levers l_n and l_t of the place where it is struck
                 N = [0, 1, l_n]         slip  v_T = [1, 0, l_t] u

    Motions that begin at q_0 = -u_0 s are struck at t = 1 s.

    Params of the system: `restitution` () [1] and those of its law; of carts `mass_ratio` () [1], first over second; of
    a body `friction` () [1] and `levers` (2,) [1]; of one that is compliant `tangential_compliance` () [1], and its
    levers are (0, l_t), those of a ball (0, r / rho), which the derivative by l_n does not leave.

    Args:
        of: "ball", "carts" or "body".
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name.
        impact_law: of a body, "newton", "poisson", "stronge" or "compliant", as in `System`.

    Returns:
        A `System` with c = 1 and d = 1, 2 or 3; equal arguments return the same one.

    Raises:
        ValueError: no such kind or law.

    Example:
        A body that is struck beside its centre, without friction: the impulse of its reduced mass 1 / (1 + l_n^2).

        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(restitution=0.5, friction=0.0, levers=jnp.array([1.0, 1.0]))
        >>> before = jnp.array([0.2, -1.0, 0.0])
        >>> run = dc.simulate(dc.systems.single_impact("body"), params, -before, before, [0.0, 2.0])
        >>> print(run.u[-1])
        [ 0.2  -0.25  0.75]
    """
    if of not in KINDS:
        raise ValueError(f"single_impact(of={of!r}): expected one of {', '.join(map(shown, KINDS))}")
    laws.named(restitution, "single_impact")
    return _single_impact(of, restitution, impact_law)


@lru_cache(maxsize=16)
def _single_impact(of: str, law: str, impact_law: str) -> System:
    def gap(t, q, params):
        del t
        row = jnp.stack([0.0, 1.0, params["levers"][0]]) if of == "body" else jnp.asarray(_ROWS[of], q.dtype)
        return (row @ q)[None]

    def slip(t, q, u, params):
        del t, q
        return (u[0] + params["levers"][1] * u[2])[None, None]

    def mass(q, params):
        if of == "carts":
            return jnp.stack([jnp.asarray(params["mass_ratio"], q.dtype), jnp.ones((), q.dtype)])
        return jnp.ones_like(q)

    rubs = {"slip": slip, "friction": lambda params: params["friction"], **laws.of_impact(impact_law)}
    return System(
        gap=gap,
        force=lambda t, q, u, params: jnp.zeros_like(u),
        mass=mass,
        restitution=laws.restitution(law),
        **(rubs if of == "body" else {}),
    )
