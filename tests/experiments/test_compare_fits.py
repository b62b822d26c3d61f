"""Three ways to fit the same data, in the study's smoke mode."""

import compare_fits


def test_differences_find_what_exact_jacobians_find_with_more_simulations():
    rows = compare_fits.main(["--smoke"])["ball"]
    ours, theirs = rows["diffcontact"], rows["differences"]
    assert (ours.arrived, theirs.arrived) == (1, 1)
    assert ours.misfit <= theirs.misfit * (1 + 1e-6)
    assert ours.error < 0.01  # six bounces with 1 % noise give e to 2e-3
    # Each Jacobian by differences takes as many simulations as there are parameters.
    assert theirs.evaluations > 2 * ours.evaluations
