"""A fit to first order against fits of linear models, in numpy: what moves it, what is left, what a test finds."""

import numpy as np
import pytest

from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.numerics.least_squares import inverse, without

N, P = 60, 3


def model(rng, runs=2):
    """Columns (n, P_i) of runs that share the first parameter; each has one more, and the second run a third."""
    index = [np.array([0, 1]), np.array([0, 1, 2])] if runs == 2 else [np.arange(P)]
    return [rng.normal(size=(N, i.size)) * 10.0 ** rng.integers(-3, 4, i.size) for i in index], index


def fitted(columns, index, data, prior=None):
    """theta, and the fit of y_g = X_g theta by least squares, of a prior about zero."""
    prior = np.zeros(P) if prior is None else prior
    A, b = np.diag(prior), np.zeros(P)
    for X, i, y in zip(columns, index, data, strict=True):
        A[np.ix_(i, i)] += X.T @ X
        b[i] += X.T @ y
    theta = inverse(A, 0.0) @ b
    runs = tuple(
        LinearisedRun((y - X @ theta[i])[:, None], -X[:, None], i, tracks=1)
        for X, i, y in zip(columns, index, data, strict=True)
    )
    return theta, LinearisedFit(runs, prior)


@pytest.mark.parametrize("prior", [np.zeros(P), np.array([0.0, 1e3, 0.0])])
def test_what_is_added_to_the_data_moves_the_estimate_as_another_fit_says(rng, prior):
    columns, index = model(rng)
    data, added = rng.normal(size=(2, N)), rng.normal(size=(2, N))
    before, fit = fitted(columns, index, data, prior)
    after, other = fitted(columns, index, data + added, prior)
    parts = {g: d[:, None] for g, d in enumerate(added)}
    np.testing.assert_allclose(fit.shift(parts), after - before, rtol=1e-8)
    # No shape of that size moves any parameter further.
    worst = fit.worst_shift([float(np.linalg.norm(d)) for d in added])
    assert np.all(worst >= np.abs(after - before))
    # What is left of it: how much more of the cost, at the least, it adds beside the data.
    if not prior.any():
        lines = [r.r[:, 0] - s.r[:, 0] for r, s in zip(other.runs, fit.runs, strict=True)]
        assert fit.left(parts, 2e-16) == pytest.approx(np.sqrt(sum(r @ r for r in lines)), rel=1e-8)


def test_the_shape_that_moves_a_parameter_most_moves_it_as_far_as_is_said(rng):
    (X,), index = model(rng, runs=1)
    _, fit = fitted([X], index, rng.normal(size=(1, N)))
    for j in range(P):
        shape = X @ inverse(X.T @ X)[:, j]
        moved = fit.shift({0: (shape / np.linalg.norm(shape))[:, None]})
        assert abs(moved[j]) == pytest.approx(fit.worst_shift([1.0])[j], rel=1e-9)


def test_what_parameters_make_up_for_leaves_nothing(rng):
    columns, index = model(rng)
    _, fit = fitted(columns, index, rng.normal(size=(2, N)))
    inside = {g: (X @ (np.arange(i.size) == 0))[:, None] for g, (X, i) in enumerate(zip(columns, index, strict=True))}
    assert fit.left(inside, 2e-16) == 0.0
    # Alone it is one run's, which the other contradicts.
    assert fit.left({1: inside[1]}, 2e-16) > 0
    assert fit.score_test({1: fit.runs[1].J[:, :, :1]}) is None


def test_a_score_test_finds_what_was_added_and_is_chi_square_without(rng):
    (X,), index = model(rng, runs=1)
    D = without(X, rng.normal(size=(N, 2)))
    truth, squares, taken = np.array([2.0, -1.0]), [], []
    for _ in range(200):
        noise = rng.normal(size=N)
        test = fitted([X], index, [noise])[1].score_test({0: D[:, None]})
        squares.append(test.taken)
        found = fitted([X], index, [noise + D @ truth])[1].score_test({0: D[:, None]})
        taken.append(found.size)
    assert test.freedom == 2
    # A mean of 200 chi^2 numbers of two degrees of freedom is known to 0.14.
    assert np.mean(squares) == pytest.approx(2.0, abs=0.45)
    error = np.sqrt(np.diag(np.linalg.inv(D.T @ D)))
    np.testing.assert_allclose(np.mean(taken, axis=0), truth, atol=4 * error.max() / np.sqrt(200))
    np.testing.assert_allclose(np.std(taken, axis=0), error, rtol=0.2)
    certain, stderr = found.certainty(fitted([X], index, [noise + D @ truth])[1])
    assert stderr == pytest.approx(error[0], rel=0.5)
    assert certain == pytest.approx(found.taken, rel=1.0)


def test_each_run_alone_says_what_a_fit_of_it_says(rng):
    columns, index = model(rng)
    data = rng.normal(size=(2, N))
    theta, fit = fitted(columns, index, data)
    for g, (X, y) in enumerate(zip(columns, data, strict=True)):
        run = fit.runs[g]
        (place, step, stderr), *_ = run.alone(fit.seen_by[run.index] == 1)
        own = np.linalg.lstsq(X, y, rcond=None)[0]
        assert place == 0
        assert step == pytest.approx(own[0] - theta[0], rel=1e-6)
        s2 = np.sum((y - X @ own) ** 2) / (N - own.size)
        assert stderr == pytest.approx(np.sqrt(s2 * np.linalg.inv(X.T @ X)[0, 0]), rel=0.5)


def test_runs_are_restricted_to_what_is_kept(rng):
    columns, index = model(rng)
    _, fit = fitted(columns, index, rng.normal(size=(2, N)))
    kept = LinearisedFit.of(fit.runs, np.arange(3.0), np.array([True, False, True]))
    assert [run.index.tolist() for run in kept.runs] == [[0], [0, 1]]
    assert kept.prior.tolist() == [0.0, 2.0]
    assert kept.seen_by.tolist() == [2, 1]
    assert kept.samples == 2 * N
