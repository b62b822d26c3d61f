# %% [markdown]
# # Gradients through impacts: the tasks that other simulators were measured by
#
# 1. A ball bounces off a floor: the derivative of its final height (Zhong, Han, Olympia Brikis 2022, arXiv 2207.05060,
#    task 1). Exact: -1 by the initial height and -1 by the initial vertical velocity.
# 2. Two equal balls on a line collide (Nimble, issue 97). Exact: (1, 0, 1, 0).
# 3. A force on one ball drives another to a target (task 3 of the same paper): gradient descent on 480 pieces of
#    control. The analytic optimum is 1.396542; 2.0 is 'learned nothing'.
# 4. Final height of a bouncing ball over its initial height (Brax, issue 317): the published schemes' is a sawtooth.
#
# Run it: `python experiments/impact_gradients.py [--out FOLDER]` (some minutes), or with `--smoke`. With matplotlib
# (`pip install 'diffcontact[report]'`) the last two leave a picture each in FOLDER (default out/impact_gradients).

# %%
from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc

jax.config.update("jax_enable_x64", True)


# %% [markdown]
# ## 1 and 2: derivatives that are known


# %%
def bounce_off_the_floor() -> np.ndarray:
    """d(final height) / d(initial height, initial vertical velocity)."""
    ball = dc.systems.balls(1, 2, box=(jnp.array([-jnp.inf, 0.0]), jnp.inf))
    params = {"mass": jnp.ones(1), "radius": jnp.array([0.1]), "gravity": jnp.zeros(2), "restitution": 1.0}

    def height(x):
        q0, u0 = jnp.stack([-1.0 + 0 * x[0], x[0]]), jnp.stack([2.0 + 0 * x[1], x[1]])
        return dc.simulate(ball, params, q0, u0, jnp.linspace(0.0, 1.0, 11)).q[-1, 1]

    return np.asarray(jax.grad(height)(jnp.array([1.0, -2.0])))


def exchange() -> np.ndarray:
    """d(final position of the second ball) / d(x1, x2, u1, u2)."""
    balls = dc.systems.balls(2, 1)
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, 0.1), "gravity": jnp.zeros(1), "restitution": 1.0}
    end = lambda x: dc.simulate(balls, params, x[:2], x[2:], jnp.linspace(0.0, 1.0, 11)).q[-1, 1]  # noqa: E731
    return np.asarray(jax.grad(end)(jnp.array([0.0, 0.52, 1.0, 0.0])))


# %% [markdown]
# ## 3: control through a collision
#
# Along the diagonal, with s the first ball's coordinate, it has to come from -2 sqrt 2 to the second one and hand over
# its velocity v at time tau: x_2(1) = -sqrt 2 + v (1 - tau). Before the collision the best control falls linearly
# in time, afterwards it is zero.


# %%
def controlled_balls() -> dc.System:
    """Two balls in the plane; params["control"] (2,) pushes the first."""
    pair = dc.systems.balls(2, 2)
    return dc.System(
        gap=pair.gap,
        force=lambda t, q, u, p: jnp.concatenate([p["control"], jnp.zeros(2, q.dtype)]),
        mass=pair.mass,
        restitution=pair.restitution,
    )


def learn_control(pieces: int, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradient descent from c = (3, 3): the objective after each iteration, and the control (pieces, 2)."""
    system, h = controlled_balls(), 1.0 / pieces
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, 0.2), "gravity": jnp.zeros(2), "restitution": 1.0}
    start = jnp.array([-2.0, -2.0, -1.0, -1.0]), jnp.zeros(4)

    def objective(control):
        def piece(state, force):
            # One simulation a piece: the force is constant in it, and everything is exact.
            run = dc.simulate(system, {**params, "control": force}, *state, jnp.array([0.0, h]))
            return (run.q[-1], run.u[-1]), None

        (q, _), _ = jax.lax.scan(jax.checkpoint(piece), start, control)
        return jnp.sum(q[2:] ** 2) + 0.1 * h * jnp.sum(control**2)

    # The gradient by a piece's force is h times that by the control as a function of time. The best control drops to
    # zero at the collision, so that the objective has a kink where the collision passes from a piece to the next: steps
    # of one length go to and fro across it, with an error in proportion to them.
    @jax.jit
    def descend(control, iteration):
        value, gradient = jax.value_and_grad(objective)(control)
        return value, control - 1.0 / (1 + iteration / 100) / h * gradient

    control, history = jnp.full((pieces, 2), 3.0), []
    for iteration in range(iterations):
        value, control = descend(control, float(iteration))
        history.append(float(value))
    return np.array(history), np.asarray(control)


def best_control(times: np.ndarray) -> tuple[float, np.ndarray]:
    """The analytic optimum along the diagonal: objective, and the control's component at the given times."""
    # To be at the distance d after tau seconds with the velocity v, the least integral of the squared control is that
    # of the cubic d(t) with these ends; then the best (tau, v) is looked for.
    way = np.sqrt(2.0) - 0.4

    def cost(tau, v):
        effort = (12 * way**2 - 12 * way * v * tau + 4 * v**2 * tau**2) / tau**3
        return (v * (1 - tau) - np.sqrt(2.0)) ** 2 + 0.1 * effort

    from scipy.optimize import minimize

    best = minimize(lambda x: cost(*x), [0.5, 2.0], method="Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-14})
    tau, v = best.x
    start, slope = 6 * way / tau**2 - 2 * v / tau, 6 * v / tau**2 - 12 * way / tau**3
    return float(best.fun), np.where(times < tau, (start + slope * times) / np.sqrt(2.0), 0.0)


# %% [markdown]
# ## 4: final height over initial height


# %%
def heights(samples: int) -> dict[str, np.ndarray]:
    """Initial heights, and final height (first row) and its derivative (second) of a ball after T = 1.2, e = 0.8."""
    ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
    params = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": 0.8}
    start, times = jnp.linspace(0.9, 1.1, samples), jnp.linspace(0.0, 1.2, 121)

    def end(scheme):
        return lambda q0: dc.simulate(ball, params, q0[None], jnp.zeros(1), times, scheme=scheme).q[-1, 0]

    def soft(q0):
        """A spring of 1e4 N/m with the dashpot that gives e = 0.8, symplectic Euler at a tenth of the step."""
        h, k = 1e-3, 1e4
        zeta = -np.log(0.8) / np.hypot(np.pi, np.log(0.8))

        def step(state, _):
            q, u = state
            contact = jnp.where(q < 0, -k * q - 2 * zeta * np.sqrt(k) * u, 0.0)
            u = u + h * (contact - 9.81)
            return (q + h * u, u), None

        return jax.lax.scan(step, (q0, jnp.zeros_like(q0)), None, length=1200)[0][0]

    def exact(q0):
        fall = jnp.sqrt(2 * q0 / 9.81)
        speed, left = 0.8 * 9.81 * fall, 1.2 - fall
        again = 2 * speed / 9.81
        once = speed * left - 9.81 * left**2 / 2
        late = left - again
        twice = 0.8 * speed * late - 9.81 * late**2 / 2
        return jnp.where(left < again, once, twice)

    curves = {"exact": exact, "EventTimed": end(None), "ElasticProjection": end(dc.ElasticProjection()), "soft": soft}
    found = {"initial": np.asarray(start)}
    for name, curve in curves.items():
        found[name] = np.stack([jax.vmap(curve)(start), jax.vmap(jax.jacfwd(curve))(start)])
    return found


def picture(folder: Path, name: str, draw, panels: int) -> None:
    """Write FOLDER/NAME.png, or say why not."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print(f"no {name}.png: matplotlib is not installed")
        return
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(panels, 1, figsize=(7, 3 * panels), layout="constrained", squeeze=False)
    draw(axes[:, 0])
    figure.savefig(folder / f"{name}.png", dpi=120)
    pyplot.close(figure)
    print(f"picture: {folder / f'{name}.png'}")


# %%
def main(arguments=None) -> dict:
    """Print all four, and return what was printed."""
    parser = argparse.ArgumentParser(description="gradients through impacts")
    parser.add_argument("--smoke", action="store_true", help="coarse")
    parser.add_argument("--out", type=Path, default=Path("out/impact_gradients"))
    options = parser.parse_args(arguments)
    pieces, iterations, samples = (24, 40, 11) if options.smoke else (480, 1000, 401)

    found = {"floor": bounce_off_the_floor(), "exchange": exchange()}
    print(f"1. floor: d(height)/d(height, velocity) = {found['floor']}, exact -1, -1")
    print(f"2. exchange: d(x2)/d(x1, x2, u1, u2) = {found['exchange']}, exact 1, 0, 1, 0")

    history, control = learn_control(pieces, iterations)
    times = (np.arange(pieces) + 0.5) / pieces
    best, curve = best_control(times)
    found.update(history=history, best=best)
    print(f"3. control: {history[0]:.6f} at first, {history[-1]:.6f} after {iterations} iterations; optimum {best:.6f}")

    def draw_control(axes):
        axes[0].step(times, control[:, 0], label="learned")
        axes[0].plot(times, curve, "--", label="analytic")
        axes[0].set(xlabel="t [s]", ylabel="control, each component [N]")
        axes[0].legend()

    picture(options.out, "control", draw_control, 1)

    found["heights"] = curves = heights(samples)
    print("4. heights: largest error of the final height | of its derivative, over initial heights 0.9 to 1.1 m")
    for name in ("EventTimed", "ElasticProjection", "soft"):
        error = np.max(np.abs(curves[name] - curves["exact"]), axis=1)
        print(f"   {name:18} {error[0]:.1e} | {error[1]:.1e}")

    def draw_heights(axes):
        for axis, row, label in zip(axes, (0, 1), ("final height [m]", "its derivative"), strict=True):
            for name, style in (("ElasticProjection", "-"), ("soft", "-"), ("EventTimed", "-"), ("exact", "k:")):
                axis.plot(curves["initial"], curves[name][row], style, label=name)
            axis.set(xlabel="initial height [m]", ylabel=label)
        axes[1].set_ylim(-10, 10)
        axes[0].legend()

    picture(options.out, "heights", draw_heights, 2)
    return found


if __name__ == "__main__":
    main()
