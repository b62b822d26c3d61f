# %% [markdown]
# # First steps: a bounce
#
# A ball is dropped and bounces. We simulate it, differentiate the simulation through the impacts, pretend to have
# filmed it, and find its restitution and the gravity again, each with an error bar.
#
# Run it as a script, `python experiments/first_steps.py`, or open it as a notebook: an editor that knows percent
# scripts does, and `jupytext --to ipynb` makes one. It writes to out/first_steps.

# %%
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc

# Parameters are wanted to more digits than single precision has.
jax.config.update("jax_enable_x64", True)

# %% [markdown]
# ## Simulate
#
# A system is what moves; its parameters are a plain dict; `simulate` takes where it starts, how fast, and the times at
# which we want to know. Impacts happen between these times, each at its own.

# %%
ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
params = {"mass": jnp.ones(1), "radius": jnp.array([0.03]), "gravity": jnp.array([-9.81]), "restitution": 0.8}
times = np.linspace(0.0, 2.0, 121)


def drop(params):
    return dc.simulate(ball, params, [1.0], [0.0], times)


motion = drop(params)
print(f"status {int(motion.status)}, where 0 means right; height after 2 s: {float(motion.q[-1, 0]):.4f} m")

# %% [markdown]
# ## Differentiate
#
# How does the height at the end answer to the restitution? The derivative is that of the exact motion, impacts
# included. Forward mode compiles quickest; `jax.grad` does as well. `dc.certify` says whether there is a derivative.

# %%


def height(restitution):
    return drop({**params, "restitution": restitution}).q[-1, 0]


slope, step = jax.jacfwd(height)(0.8), 1e-6
difference = (height(0.8 + step) - height(0.8 - step)) / (2 * step)
print(f"d height / d restitution: {float(slope):.6f} m; by differences {float(difference):.6f} m")

# %% [markdown]
# ## Fit
#
# The film: 60 pictures a second, the height of the ball to 5 mm. What is free gets a domain; all else stays as it is.

# %%
noise = 5e-3
film = np.asarray(motion.q) + noise * np.random.default_rng(0).normal(size=motion.q.shape)
seen = dc.Observations(times, film, noise, lambda trajectory, params: trajectory.q)
problem = dc.Problem(ball, seen, lambda params: (params["height"], jnp.zeros(1)))
start = {**params, "restitution": 0.7, "gravity": jnp.array([-9.0]), "height": jnp.array([0.95])}
free = {"restitution": dc.Interval(0.0, 1.0), "gravity": dc.Interval(-20.0, 0.0), "height": dc.Real()}
result = dc.fit(problem, start, free)
print(result)

# %% [markdown]
# ## Look
#
# Measured and fitted, and what is left; the curve has its corners where the impacts are. The page plays the motion.

# %%
figure = result.plot()
out = Path("out/first_steps")
out.mkdir(parents=True, exist_ok=True)
figure.savefig(out / "bounce.png", dpi=150)
result.report(out / "bounce.html")
print(f"wrote {out / 'bounce.png'} and {out / 'bounce.html'}")
