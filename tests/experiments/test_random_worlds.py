"""The study of random worlds, in its smoke mode."""

import numpy as np
import random_worlds


def test_smoke():
    rows = random_worlds.main(["--smoke"])
    assert len(rows) == 5
    for row in rows:
        # What is said to be fine is.
        assert row.fine.any()
        assert row.told_though_right().size <= np.sum(row.status != 0)
        for kind, which in row.bad().items():
            assert which.size == 0, f"{row.family} by {row.scheme}: worlds {which} {kind}"


def test_worlds_begin_in_the_open_and_differ():
    for family in random_worlds.FAMILIES[:-1]:
        batch = random_worlds.worlds(family, 8, seed=3)
        again = random_worlds.worlds(family, 8, seed=3)
        for name, values in batch.items():
            np.testing.assert_array_equal(values, again[name])
        gaps = [random_worlds.clearance(family, {k: v[i] for k, v in batch.items()}, batch["q0"][i]) for i in range(8)]
        assert min(gaps) > 0.03
        assert len(np.unique(batch["q0"][:, 0])) == 8
