"""A largest independent subset of rows, beside numpy's rank: of few rows, and of many that are chosen in blocks."""

import jax
import numpy as np
import pytest

from diffcontact.qp.rows import NONE, independent_slots


@pytest.mark.parametrize(("count", "size", "rank"), [(40, 12, 7), (300, 40, 40), (300, 400, 200), (300, 30, 5)])
def test_as_many_as_the_rank_are_taken_and_none_that_is_not_wanted(rng, count, size, rank):
    rows = rng.normal(size=(count, rank)) @ rng.normal(size=(rank, size))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    choose = jax.jit(independent_slots)
    for share in (1.0, 0.5, 0.1, 0.0):
        wanted = rng.uniform(size=count) < share
        slots = np.asarray(choose(rows, wanted))
        taken = slots[slots != NONE]
        assert np.all(wanted[taken])
        held = np.linalg.matrix_rank(rows[wanted]) if np.any(wanted) else 0
        assert len(set(taken)) == len(taken) == held
        assert not held or np.linalg.matrix_rank(rows[taken]) == held
