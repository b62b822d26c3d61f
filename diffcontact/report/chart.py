"""Line charts as inline SVG: enough for a report, no drawing library needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 12, 40
# More points than this cannot be told apart on the page.
_MOST_POINTS = 600


@dataclass(frozen=True, eq=False)
class Series:
    """One curve: x and y (n,), NaN interrupts it; dots for measurements, a line for a model."""

    label: str
    x: NDArray
    y: NDArray
    colour: str
    dots: bool = False


def chart(series: Sequence[Series], x_label: str, y_label: str) -> str:
    """An SVG element with axes, grid and legend.

    Args:
        series: the curves, drawn in their order; at least one finite point among them.
        x_label, y_label: with units.

    Returns:
        The `<svg>` element as text.

    Example:
        >>> t = np.linspace(0.0, 1.0, 5)
        >>> chart([Series("fall", t, -(t**2), "#1f77b4")], "t [s]", "y [m]").startswith("<svg")
        True
    """
    low_x, high_x = _range([s.x for s in series])
    low_y, high_y = _range([s.y for s in series], margin=0.05)

    def to_x(x):
        return _LEFT + (x - low_x) / (high_x - low_x) * (WIDTH - _LEFT - _RIGHT)

    def to_y(y):
        return _TOP + (high_y - y) / (high_y - low_y) * (HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(y_label)} against {escape(x_label)}">'
    ]
    for tick in ticks(low_x, high_x):
        parts.append(f'<path class="grid" d="M{to_x(tick):.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text x="{to_x(tick):.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    for tick in ticks(low_y, high_y):
        parts.append(f'<path class="grid" d="M{_LEFT} {to_y(tick):.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{to_y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{(_LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    parts.append(
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )
    for i, curve in enumerate(series):
        x, y = _thin(curve.x, curve.y)
        path = _dots(to_x(x), to_y(y)) if curve.dots else _line(to_x(x), to_y(y))
        style = 'stroke-width="3" stroke-linecap="round" opacity="0.5"' if curve.dots else 'stroke-width="1.2"'
        parts.append(f'<path fill="none" stroke="{curve.colour}" {style} d="{path}"/>')
        parts.append(
            f'<text x="{_LEFT + 8 + 170 * i}" y="{_TOP + 14}" fill="{curve.colour}">{escape(curve.label)}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def ticks(low: float, high: float) -> list[float]:
    """About six round numbers within [low, high].

    Example:
        >>> ticks(0.0, 1.0)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / 6
    power = 10.0 ** np.floor(np.log10(rough))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(np.log(s / rough)))
    count = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)
    # Rounding takes off the tail of 3 * 0.2; adding zero takes the sign off -0.
    return [round(float(k * step), 12) + 0.0 for k in count]


def _range(arrays: Sequence[NDArray], margin: float = 0.0) -> tuple[float, float]:
    finite = np.concatenate([array[np.isfinite(array)] for array in arrays])
    low, high = float(finite.min()), float(finite.max())
    spare = margin * (high - low) or (0.0 if high > low else max(abs(high), 1.0) * 1e-3)
    return low - spare, high + spare


def _thin(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    every = -(-x.size // _MOST_POINTS)
    return x[::every], y[::every]


def _dots(x: NDArray, y: NDArray) -> str:
    return "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x, y, strict=True) if np.isfinite(a) and np.isfinite(b))


def _line(x: NDArray, y: NDArray) -> str:
    """A path that lifts the pen where a value is missing."""
    parts, pen = [], "M"
    for a, b in zip(x, y, strict=True):
        if np.isfinite(a) and np.isfinite(b):
            parts.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)
