"""Fifty digits: what motions need that `decimal` has not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext

import numpy as np

DIGITS = 50
getcontext().prec = DIGITS
ZERO, ONE, TWO = Decimal(0), Decimal(1), Decimal(2)
TINY = Decimal(10) ** (5 - DIGITS)


def vector(values) -> np.ndarray:
    return np.array([Decimal(value) if isinstance(value, int) else value for value in values], dtype=object)


def dot(a, b) -> Decimal:
    return sum((x * y for x, y in zip(a, b, strict=True)), ZERO)


def cross(a, b) -> np.ndarray:
    return vector([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def length(a) -> Decimal:
    return dot(a, a).sqrt()


def sin_cos(x: Decimal) -> tuple[Decimal, Decimal]:
    """By the series, of an eighth of the angle, doubled three times."""
    x = x / 8
    sine, cosine, term, k = ZERO, ONE, ONE, 0
    while abs(term) > TINY * TINY:
        k += 1
        term = term * x / k
        if k % 2:
            sine += term if k % 4 == 1 else -term
        else:
            cosine += term if k % 4 == 0 else -term
    for _ in range(3):
        sine, cosine = 2 * sine * cosine, 1 - 2 * sine * sine
    return sine, cosine


def solve(matrix, right) -> np.ndarray:
    """Gauss's elimination with pivots."""
    n = len(right)
    rows = [[*matrix[i], right[i]] for i in range(n)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    found = [ZERO] * n
    for k in reversed(range(n)):
        found[k] = (rows[k][n] - sum((rows[k][j] * found[j] for j in range(k + 1, n)), ZERO)) / rows[k][k]
    return vector(found)


def falls_through(a: Decimal, b: Decimal, c: Decimal) -> Decimal | None:
    """The first s >= 0 at which a s^2 + b s + c goes from above zero to below; it may begin at zero."""
    if abs(a) < TINY:
        return -c / b if b < 0 else None
    square = b * b - 4 * a * c
    if square <= 0:
        return None
    # The root at which the slope is negative, -sqrt(square), in the form that does not cancel.
    root = square.sqrt()
    s = 2 * c / (root - b) if b < 0 else -(b + root) / (2 * a)
    return s if s >= 0 and (s > 0 or b < 0) else None


def first_fall(function: Callable, end: Decimal, samples: int = 120) -> Decimal | None:
    """The first s in (0, end] at which a function falls through zero: samples, then secants that stay between them."""
    step = end / samples
    before = None
    for k in range(1, samples + 1):
        value = function(step * k)
        if before is not None and before > 0 >= value:
            return root_between(function, step * (k - 1), step * k, before, value)
        before = value
    return None


def root_between(function: Callable, a, b, at_a, at_b) -> Decimal:
    """Newton's iteration with the slope of a secant, halving where it leaves the bracket."""
    for _ in range(200):
        s = b - at_b * (b - a) / (at_b - at_a)
        if not min(a, b) < s < max(a, b):
            s = (a + b) / 2
        value = function(s)
        if abs(value) < TINY:
            return s
        if (value > 0) == (at_a > 0):
            # The end that stays counts half, or it would stay for ever (Illinois).
            a, at_a, at_b = s, value, at_b / 2
        else:
            b, at_b, at_a = s, value, at_a / 2
    raise ArithmeticError("no root was found")


def extrapolated(rate: Callable, x: np.ndarray, end: Decimal, pieces: int, order: int) -> np.ndarray:
    """x' = rate(x) over [0, end], by Gragg's, Bulirsch's and Stoer's extrapolation of the midpoint rule in h^2.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.9.
    """
    for _ in range(pieces):
        table: list[list] = []
        for j in range(order):
            n = 2 * (j + 1)
            h = end / pieces / n
            before, now = x, x + h * rate(x)
            for _ in range(n - 1):
                before, now = now, before + 2 * h * rate(now)
            row = [(before + now + h * rate(now)) / 2]
            for k in range(j):
                ratio = Decimal(n) / (2 * (j - k))
                row.append(row[k] + (row[k] - table[j - 1][k]) / (ratio * ratio - 1))
            table.append(row)
        x = table[-1][-1]
    return x
