"""Still pictures of curves for readers without JavaScript: bare lines and dots, and the ends of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from diffcontact.report.content import Channel, RunView
from diffcontact.report.course import thinned

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 200, 70, 24
_DOTS, _POINTS = 200, 300
# What is nearer to a line than this part of the height cannot be seen.
_FINE = 2e-3


def sketch(run: RunView, channels: Sequence[int], title: str, time: str, of: Sequence[Channel]) -> str:
    """An SVG element: the curves of some channels, and what was measured of them.

    Args:
        run: the run.
        channels: which of its channels, in one unit.
        title: of the vertical axis.
        time: unit of times.
        of: all channels.
    """
    factors = np.array([of[k].factor for k in channels])
    curve = run.curve[:, list(channels)] * factors
    dots = run.measured[:, list(channels)] * factors if run.measured.size else np.zeros((0, len(channels)))
    values = np.concatenate([curve.ravel(), dots.ravel()])
    values = values[np.isfinite(values)]
    if not values.size or run.times.size < 2:
        return ""
    low, high = float(values.min()), float(values.max())
    high = high if high > low else low + (abs(low) or 1.0)
    begin, end = float(run.times[0]), float(run.times[-1])
    down = of[channels[0]].down

    def place(t: NDArray, y: NDArray) -> NDArray:
        part = (y - low) / (high - low)
        x = _LEFT + (t - begin) / (end - begin) * (_WIDTH - _LEFT - 8)
        return np.stack([x, 8 + (part if down else 1 - part) * (_HEIGHT - _BOTTOM - 8)], axis=-1)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)} against time">']
    for number in range(len(channels)):
        good = np.flatnonzero(np.isfinite(curve[:, number]))
        rows = good[thinned(run.times[good], curve[good, number, None], _FINE)] if good.size else good
        rows = rows[:: -(-rows.size // _POINTS) or 1]
        line = place(run.times[rows], curve[rows, number])
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        every = -(-len(dots) // _DOTS) or 1
        seen = place(run.samples[::every], dots[::every, number])
        marks = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in seen[np.all(np.isfinite(seen), axis=1)])
        parts.append(f'<g class="c{number % 6}"><path d="{marks}"/><polyline points="{points}"/></g>')
    top, bottom = (low, high) if down else (high, low)
    labels = [(_LEFT - 6, 16, "end", f"{top:.4g}"), (_LEFT - 6, _HEIGHT - _BOTTOM, "end", f"{bottom:.4g}")]
    labels += [(_LEFT, _HEIGHT - 6, "start", f"{begin:.4g}"), (_WIDTH - 8, _HEIGHT - 6, "end", f"{end:.4g} {time}")]
    labels += [((_LEFT + _WIDTH) / 2, _HEIGHT - 6, "middle", title)]
    parts += [f'<text x="{x}" y="{y}" text-anchor="{at}">{escape(text)}</text>' for x, y, at, text in labels]
    return "\n".join([*parts, "</svg>"])
