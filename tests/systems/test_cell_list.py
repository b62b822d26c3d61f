"""The cell list finds all pairs of balls that are near each other, each once."""

from functools import partial

import jax
import numpy as np
import pytest

from diffcontact.systems import cell_list_balls


@partial(jax.jit, static_argnums=2)
def pairs_within(centre, radius, candidates):
    return cell_list_balls.pairs_within(centre, radius, REACH, 0.13, candidates)


REACH = 0.03


# Of a hundred balls all pairs are looked at.
@pytest.mark.parametrize(("dimension", "count"), [(2, 100), (1, 400), (2, 400), (3, 400)])
def test_all_pairs_that_are_near_are_found_once(rng, dimension, count):
    wide = (20.0, 1.6, 0.9)[dimension - 1]
    # In two heaps, so far apart that the cells' numbers begin anew in the midst of the second, between two balls.
    anew = 0.13 * 2 ** (30 // dimension)
    centre = rng.uniform(0.0, wide, (count, dimension)) + rng.choice([0.0, anew - 0.5 * wide], (count, 1))
    centre[0], centre[1:3] = 0.0, anew - 0.01
    centre[2, -1] = anew + 0.01
    radius = rng.uniform(0.01, 0.05, count)
    first, second, within, full = map(np.asarray, pairs_within(centre, radius, 12))
    found = sorted(tuple(sorted(pair)) for pair in zip(first[within].tolist(), second[within].tolist(), strict=True))
    i, j = np.triu_indices(count, k=1)
    apart = np.linalg.norm(centre[i] - centre[j], axis=1) < radius[i] + radius[j] + REACH
    assert found == sorted(zip(i[apart].tolist(), j[apart].tolist(), strict=True))
    assert len(found) > 3
    assert not full
    if (dimension, count) == (2, 400):
        assert pairs_within(centre, radius, 1)[3]
