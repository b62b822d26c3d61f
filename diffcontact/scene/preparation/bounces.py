"""A falling ball, filmed or heard: its flights and bounces.

A film of 24 pictures a second in a file of 30 repeats one picture in five: for one row the body stops. So the rows are
no clock. The pictures that differ are a clock.

A false detection is told from the ball by what the ball must do. Between impacts it is on a parabola y = a + b t + g/2
t^2 with one g. A hand, a shadow or another ball is not, however smoothly it moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyfit
from numpy.typing import NDArray

from diffcontact.identify.noise import roughness
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.coordinates import PREPARATIONS, RESTITUTION_STARTS, Preparation, PreparedRun

# A row repeats the one before if it moves by less than this part of what both its neighbours move, and lacks so many
# standard deviations of their mean by the noise: the noise alone stops a slow body, too.
_STILL, _STOPPED = 0.2, 5.0 * np.sqrt(5.0)
# Motions below this part of the whole way are rest, or the turning point of a flight, and prove nothing.
_REST = 0.01
# A body that falls and bounces is about four times faster at its fastest than in the middle of its speeds.
_FASTEST = 6.0
# Rows further apart than so many spacings have one missing between them.
_MISSING = 1.5
# With fewer repeated rows than this no rhythm can be seen.
_RHYTHM = 3
# In a steady rhythm a row is repeated this near to its beat. Rhythms are tried from the first so many rows found, and
# with periods up to so many rows.
_OUT_OF_STEP, _TRIED, _LONGEST = 0.75, 12, 30.0


def followed(t: NDArray, y: NDArray) -> NDArray:
    """Mark (n,) the best chain of samples that a body can follow, of positions y (n,) with NaN.

    The chain has the largest sum of 1 - v / v_max over its links of speed v: many samples and no jumps. v_max is six
    times the median speed. A false detection away from the body is reached by no speed that is possible. A group of
    them, near each other, would cost more of the samples before and after than it has.
    """
    seen = np.flatnonzero(np.isfinite(y))
    keep = np.zeros(y.size, bool)
    if seen.size < 3:
        keep[seen] = True
        return keep
    t, y = t[seen], y[seen]
    way = _span(y)
    steps, speeds = np.abs(np.diff(y)), np.abs(np.diff(y)) / np.diff(t)
    moving = steps > _REST * way
    fastest = _FASTEST * np.median(speeds[moving]) if moving.any() else np.inf
    worth, before = np.zeros(seen.size), np.full(seen.size, -1)
    for i in range(1, seen.size):
        link = 1 - np.abs(y[i] - y[:i]) / (fastest * (t[i] - t[:i]))
        chain = np.where(link >= 0, worth[:i] + link, -1.0)
        j = int(np.argmax(chain))
        if chain[j] >= 0:
            worth[i], before[i] = chain[j], j
    i = int(np.argmax(worth))
    while i >= 0:
        keep[seen[i]] = True
        i = before[i]
    return keep


def repeated(y: NDArray, rows: slice) -> NDArray:
    """Mark rows (n,) that repeat the picture before.

    Only within `rows`, where the body moves. Where it turns or was not found a repetition does not show; from three on
    the rhythm of the others tells where it must be.
    """
    found, lacking = np.zeros(y.size, bool), np.zeros(y.size)
    rest = _REST * _span(y)
    for i in range(max(rows.start, 2), min(rows.stop, y.size - 1)):
        before, here, after = np.diff(y[i - 2 : i + 2])
        # At a bounce or a turning point the motion changes its sign, and rows that are alike may both be true.
        going_on = before * after > 0 and min(abs(before), abs(after)) > rest
        found[i] = going_on and abs(here) <= _STILL * min(abs(before), abs(after))
        lacking[i] = abs(before + after) / 2 - abs(here)
    # Repeated rows would look like noise.
    return found & (lacking > _STOPPED * roughness(y[~found]))


def rhythm(found: NDArray, rows: slice) -> NDArray:
    """Complete repeated rows (n,) within `rows` by their rhythm."""
    inside = np.zeros_like(found)
    inside[rows] = found[rows]
    at = np.flatnonzero(inside)
    if at.size < _RHYTHM:
        return inside
    spacing = np.diff(at)
    # The longest period of which all spacings are multiples, as nearly as may be: a picture may come a row late.
    periods = np.arange(max(spacing.min() - 1, 1), spacing.max() + 1)[::-1]
    counts = np.maximum(np.round(spacing[None, :] / periods[:, None]), 1).astype(int)
    best = int(np.argmin(np.sum(np.abs(spacing - counts * periods[:, None]), axis=1)))
    for first, step, count in zip(at[:-1], spacing, counts[best], strict=True):
        inside[np.round(first + step * np.arange(1, count) / count).astype(int)] = True
    return inside


def steady_rhythm(found: NDArray) -> NDArray:
    """Find the steady rhythm (n,) that explains most repeated rows; those out of step are none."""
    at = np.flatnonzero(found)
    if at.size < _RHYTHM:
        return np.zeros_like(found)
    best, beats, last = 0.0, np.zeros(0), found.size - 1
    periods = np.arange(40, 20 * _LONGEST) / 20
    for first in at[:_TRIED]:
        beat = np.round((at - first) / periods[:, None])
        row = first + beat * periods[:, None]
        away = np.abs(at - row)
        # Against it: beats that were not found, between the first that was and the last, and rows out of step.
        begin, end = max(at[0] - 1, 0), min(at[-1] + 1, last)
        due = np.floor((end - first) / periods) - np.ceil((begin - first) / periods) + 1
        in_step = (away < _OUT_OF_STEP) & (row >= 0) & (row <= last)
        # Of two rows that are near one beat the nearer is its repetition.
        rival = (beat[:, 1:] == beat[:, :-1]) & in_step[:, 1:] & in_step[:, :-1]
        hit = in_step.copy()
        hit[:, 1:] &= ~(rival & (away[:, 1:] >= away[:, :-1]))
        hit[:, :-1] &= ~(rival & (away[:, 1:] < away[:, :-1]))
        worth = np.sum(np.where(hit, 3.0 - away, 0.0), axis=1) - due - 2.0 * np.sum(~in_step, axis=1)
        at_best = int(np.argmax(worth))
        if worth[at_best] > best:
            best, period = worth[at_best], periods[at_best]
            beats = first + period * np.arange(-(first // period), (last - first) // period + 1)
    rows = np.round(beats).astype(int)
    after = np.clip(np.searchsorted(at, rows), 1, at.size - 1)
    near = np.where(rows - at[after - 1] < at[after] - rows, at[after - 1], at[after])
    again = np.zeros_like(found)
    again[np.where(np.abs(near - rows) <= 1, near, rows)] = True
    return again


def _picture_times(times: NDArray, again: NDArray) -> NDArray:
    """Times (n,) of pictures from 0 on; repeated pictures are counted."""
    if not again.any():
        return times - times[0]
    spacing = float(np.median(np.diff(times)))
    missing = np.round(np.diff(times, prepend=times[0] - spacing) / spacing) - 1
    count = np.cumsum(np.maximum(missing, 0) + ~again)
    return (count - count[0]) * spacing


def _require_every_row(times: NDArray, again: NDArray) -> None:
    """Refuse missing rows where pictures repeat: pictures cannot be counted."""
    steps = np.diff(times)
    if again.any() and np.any(gap := steps > _MISSING * np.median(steps)):
        i = int(np.argmax(gap))
        raise ValueError(
            f"no row between {times[i]:.6g} and {times[i + 1]:.6g}, and {int(again.sum())} rows repeat a picture: "
            "expected every row of the film, so that pictures can be counted. data.window leaves a part out"
        )


def _span(y: NDArray) -> float:
    return float(np.ptp(np.nanpercentile(y, [5, 95])))


# Parts of the whole way: nearer to a parabola a sample is on it; farther off than this it is none of the ball's.
_ON, _OFF = 0.015, 0.05
# A sample on a parabola counts 1 for it, one that is off it this much; a flight has so many in all.
_AGAINST, _ENOUGH = -0.5, 5.0
# Gravities of flights differ by this part of themselves at most, by drag and by the picture's perspective.
_ALIKE = 0.25
# Parabolas are drawn through samples of half the record at most, or of so many where it is short.
_DRAWS, _REACH = 6000, 16.0


class Flight(NamedTuple):
    """A parabola, its first and last sample, and samples on it."""

    parabola: Polynomial
    begin: int
    end: int
    on: int


def flights(t: NDArray, y: NDArray) -> list[Flight]:
    """Find the flights of a ball at positions y (n,) downwards.

    Parabolas through three samples are drawn at random. A flight is the one of greatest consensus: over its best
    stretch a sample on it counts +1, one off it -1/2. The next is found among the other samples, with nearly the same
    curvature, until there is none.

    Source: M. A. Fischler, R. C. Bolles, Communications of the ACM 24 (1981) 381, for consensus instead of averages.
    """
    found: list[Flight] = []
    if y.size < _ENOUGH:
        return found
    way, left, parabolas = _span(y), np.ones(y.size, bool), _drawn(t, y)
    near = np.abs(parabolas[:, :1] + parabolas[:, 1:2] * t + parabolas[:, 2:] * t**2 - y) < _ON * way
    while len(parabolas):
        # Samples of another flight end every stretch.
        score, begin, end = _best_stretch(np.where(left, np.where(near, 1.0, _AGAINST), -float(y.size)))
        best = int(np.argmax(score))
        if score[best] < _ENOUGH:
            break
        rows = np.arange(begin[best], end[best] + 1)
        on = rows[near[best, rows]]
        parabola = Polynomial(polyfit(t[on], y[on], 2))
        if not abs(parabola.coef[2] / parabolas[best, 2] - 1) < _ALIKE:
            # Most of what is near this parabola is on another curve, as where a hand keeps still.
            parabolas, near = (np.delete(part, best, axis=0) for part in (parabolas, near))
            continue
        found.append(Flight(parabola, int(rows[0]), int(rows[-1]), on.size))
        left[rows] = False
        alike = np.abs(parabolas[:, 2] / found[0].parabola.coef[2] - 1) < _ALIKE
        if not alike.all():
            parabolas, near = parabolas[alike], near[alike]
    return sorted(found, key=lambda flight: flight.begin)


def _drawn(t: NDArray, y: NDArray) -> NDArray:
    """Draw parabolas (m, 3) through three samples that bend clearly."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, y.size - 2, _DRAWS)
    reach = np.exp(rng.uniform(np.log(2.0), np.log(max(y.size / 2, _REACH)), _DRAWS)).astype(int)
    last = np.minimum(first + reach, y.size - 1)
    middle = first + 1 + (rng.uniform(size=_DRAWS) * (last - first - 1)).astype(int)
    chosen = np.stack([first, middle, last])[:, last - first >= 2]
    (ta, tb, tc), (ya, yb, yc) = t[chosen], y[chosen]
    slope = (yb - ya) / (tb - ta)
    bend = ((yc - yb) / (tc - tb) - slope) / (tc - ta)
    # y = ya + slope (t - ta) + bend (t - ta) (t - tb)
    parabolas = np.stack([ya - slope * ta + bend * ta * tb, slope - bend * (ta + tb), bend], axis=1)
    return parabolas[bend * (tc - ta) ** 2 / 4 > 2 * _ON * _span(y)]


def _best_stretch(worth: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Find the stretch of largest sum in each row of (m, n)."""
    total = np.cumsum(worth, axis=1)
    before = np.minimum.accumulate(np.pad(total, ((0, 0), (1, 0)))[:, :-1], axis=1)
    end = np.argmax(total - before, axis=1)
    lanes = np.arange(len(worth))
    padded = np.pad(total, ((0, 0), (1, 0)))
    begin = np.argmin(np.where(np.arange(worth.shape[1]) <= end[:, None], padded[:, :-1], np.inf), axis=1)
    return (total - before)[lanes, end], begin, end


def _off_flights(t: NDArray, y: NDArray, found: list[Flight]) -> NDArray:
    """Mark false detections (n,): samples off the flight around them.

    Samples between two flights that meet are on one of them. The first fall counts from its beginning. Samples in no
    flight's course are not judged.
    """
    if not found:
        return np.zeros(y.size, bool)
    distance, far = np.zeros(y.size), _OFF * _span(y)
    for i, flight in enumerate(found):
        apex = -flight.parabola.coef[1] / (2 * flight.parabola.coef[2])
        begin = flight.begin if i else min(int(np.searchsorted(t, apex)), flight.begin)
        rows = slice(begin, flight.end + 1)
        distance[rows] = np.abs(flight.parabola(t[rows]) - y[rows])
    lowest = np.max(y[distance <= far]) + far
    for before, after in pairwise(found):
        rows = slice(before.end + 1, after.begin)
        meet = [r.real for r in (before.parabola - after.parabola).roots() if t[before.end] <= r.real <= t[after.begin]]
        # Where a flight between them was not found they would meet below the floor.
        if any(before.parabola(at) < lowest for at in meet):
            distance[rows] = np.min([np.abs(flight.parabola(t[rows]) - y[rows]) for flight in (before, after)], axis=0)
    return distance > far


# Part of the height that the ball must have fallen before its flight counts as free: hands open slowly.
_RELEASED = 0.05
# A velocity jump below this part of the largest velocity is no bounce but the noise of a ball that rests.
_JUMP = 0.2
# A parabola has three coefficients, and one sample more; drag and perspective make gravities differ by less.
_FEWEST, _UNLIKE = 4, 1.6
# Of a ball that was heard: steps of the simulation per flight, and the part of the last flight behind the last impact.
_STEPS, _BEYOND = 8, 0.4
_FLAGS = "false detections can be flagged in a column that [preparation] names as its outlier"


@PREPARATIONS.add(
    "bounces",
    column="the column of the ball's height in the picture",
    unit='of that column, the system\'s by default: "px", or "mm" with data.scale',
    axis='"down" (default) where the column grows downwards, as in a picture, or "up"',
    repeated="column that is not 0 in rows that repeat a picture",
    outlier="column that is not 0 in rows that are false detections",
    blur="{ value, unit }: pictures nearer to a bounce are left out",
)
def bounces(table: Table, ready: ReadySystem) -> Preparation:
    """Prepare the vertical track of a ball from its release on.

    Rows that repeat a picture are left out. Where there are any, times are counts of the other pictures times the
    spacing of the rows. False detections are left out, and so are pictures next to a bounce, in which the ball is
    blurred or flattened. Bounces are where the velocity jumps from downwards to upwards; parabolas through the flights
    between them give the starting values.
    """
    if "apexes" not in ready.given:
        raise table.fail("kind", "'bounces' goes with the system 'bouncing ball'")
    down = table.choice("axis", ("down", "up"), "down") == "down"
    column, scale = table.text("column"), table.factor("unit", ready.length) * (1.0 if down else -1.0)
    again, wrong = table.text("repeated", ""), table.text("outlier", "")
    blur, count = table.quantity("blur", ready.time, 0.0, zero=True), _modelled(ready)

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        flagged = [np.nan_to_num(columns[name]) != 0 if name else np.zeros(times.size, bool) for name in (again, wrong)]
        try:
            return [_prepared(times, np.where(flagged[1], np.nan, scale * columns[column]), flagged[0], count, blur)]
        except ValueError as error:
            raise ValueError(f"column {column!r}: {error}") from None

    return Preparation(
        runs=runs,
        columns=tuple(filter(None, (column, again, wrong))),
        channels=(column,),
        description=f"from the release to bounce {count + 1}; repeated pictures and false detections are left out, and "
        f"what is nearer than {blur:g} to a bounce; where pictures repeat time counts those that differ, times the "
        "spacing of the rows",
        suggests=("q0", "u0", "restitution", "later_restitution", "gravity", "floor"),
        gives=("apexes",),
        down=down,
        reversed=not down,
    )


@PREPARATIONS.add("sound")
def sound(table: Table, ready: ReadySystem) -> Preparation:
    """The times of a ball's impacts, as a microphone heard them.

    The motion begins with the first impact that was heard, upwards from the floor. The time of the second one gives its
    speed. The time of each later impact is compared with the simulated one; no height is measured, so that gravity has
    to be known.
    """
    if "apexes" not in ready.given or ready.length == "px":
        raise table.fail("kind", "'sound' goes with the system 'bouncing ball' with length = 'm' and time = 's'")
    count = _modelled(ready)

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        del columns
        if times.size < count + 2:
            raise ValueError(f"{times.size} impacts, expected at least {count + 2}")
        heard = times - times[0]
        flown = np.diff(heard)
        edges = np.append(heard, heard[-1] + _BEYOND * flown[-1])
        grid = np.append(np.linspace(edges[:-1], edges[1:], _STEPS, endpoint=False, axis=1).ravel(), edges[-1])
        ratios = np.clip(flown[1:] / flown[:-1], *RESTITUTION_STARTS)
        start = {
            "half_flight": flown[0] / 2,
            "restitution": float(ratios[0] if count > 1 else ratios.mean()),
            "later_restitution": ratios[1:count],
        }
        given = {"apexes": (heard[1:-1] + heard[2:])[: count - 1] / 2}
        notes = {"impacts heard": str(times.size), "first flight": f"{flown[0]:.4g} s"}
        return [PreparedRun(grid, np.full((grid.size, 1), np.nan), start, given, notes, impacts=heard[1:])]

    return Preparation(
        runs=runs,
        columns=(),
        channels=("height",),
        description="times of impacts, from the first that was heard; the ball leaves the floor there",
        suggests=("half_flight", "restitution", "later_restitution"),
        gives=("apexes",),
        hears=True,
        reversed=True,
    )


def _modelled(ready: ReadySystem) -> int:
    return (ready.given["apexes"] or (0,))[0] + 1


def _prepared(times: NDArray, y: NDArray, known: NDArray, count: int, blur: float) -> PreparedRun:
    """Prepare heights y (n,), downwards; `known` (n,) repeat a picture."""
    if not np.isfinite(y).any():
        raise ValueError("no sample, expected a ball that bounces")
    beat, false = _rhythm_and_flights(times, y, known)
    y = np.where(false, np.nan, y)
    y = np.where(followed(times, y), y, np.nan)
    turns = _bounce_rows(np.where(known | repeated(y, slice(0, y.size)), np.nan, y))
    if turns.size < count:
        raise ValueError(f"{turns.size} bounces, expected at least {count}; {_FLAGS}")
    # From the sample behind the last one near the top: the release.
    fall = np.flatnonzero(np.isfinite(y[: turns[0]]))
    top, bottom = y[fall].min(), y[fall].max()
    held = np.flatnonzero(y[fall] < top + _RELEASED * (bottom - top))
    rows = slice(int(fall[min(held[-1] + 1, fall.size - 1)]), int(turns[count]) if turns.size > count else y.size)
    again = rhythm(known | repeated(y, rows) | beat, rows)
    _require_every_row(times[rows], again[rows])
    at = _picture_times(times, again)
    use = np.flatnonzero(~again)
    use = use[(use >= rows.start) & (use < rows.stop)]
    if use.size < 2:
        raise ValueError(f"{use.size} pictures of the fall are no repetition, expected a ball that falls; {_FLAGS}")
    t, y = at[use] - at[use[0]], y[use]
    parabolas = _flights(t, y, at[turns[:count]] - at[use[0]])
    meet = [_meeting(a, b) for a, b in pairwise(parabolas)]
    for bounce in meet:
        y = np.where(np.abs(t - bounce) < blur, np.nan, y)
    notes = {
        "bounces": "at " + ", ".join(f"{bounce:.2f}" for bounce in meet),
        "repeated pictures": str(int(again.sum())),
        "samples": f"{int(np.isfinite(y).sum())} of {t.size}",
    }
    if later := ", ".join(f"{times[turn]:.4g}" for turn in turns[count:]):
        notes["left out"] = f"bounces near t = {later} of the recording, as system.bounces = {count}"
    # The turning point of a flight, within it.
    apexes = [
        np.clip(flight.deriv().roots()[0], 0.9 * begin + 0.1 * end, 0.1 * begin + 0.9 * end)
        for flight, begin, end in zip(parabolas[1:], meet, meet[1:], strict=False)
    ]
    return PreparedRun(t, y[:, None], _start(parabolas, meet), {"apexes": np.array(apexes)}, notes)


def _rhythm_and_flights(times: NDArray, y: NDArray, known: NDArray) -> tuple[NDArray, NDArray]:
    """Decide (n,) on a steady rhythm, and (n,) on false detections."""
    everything = slice(0, y.size)
    # Pictures of a ball at rest are alike; flags among them have no rhythm.
    moves = np.abs(np.roll(y, -1) - np.roll(y, 1)) > _REST * _span(y)
    seem = (known & moves) | repeated(y, everything)
    none, beats = np.zeros_like(known), steady_rhythm(seem)
    best, chosen = -1, (none, none)
    seen, stated = rhythm(seem, everything) | known, beats | known
    # Where no picture repeats both are the same, and flights take seconds to find.
    for beat, again in ((none, seen), (beats, stated))[: 1 if np.array_equal(seen, stated) else 2]:
        rows = np.flatnonzero(~again & np.isfinite(y))
        pictures = _picture_times(times, again)[rows]
        found = flights(pictures, y[rows])
        on = sum(flight.on for flight in found)
        if on > best:
            false = none.copy()
            false[rows] = _off_flights(pictures, y[rows], found)
            best, chosen = on, (beat, false)
    return chosen


def _bounce_rows(y: NDArray) -> NDArray:
    """Find lowest rows where the velocity jumps; y downwards.

    The jump is looked for without the row itself: one false reading looks like a bounce only while it is there.
    """
    seen = np.flatnonzero(np.isfinite(y))
    # A picture repeated at the bounce itself would hide it: before and after it the ball is at the same height.
    seen = seen[np.abs(np.diff(y[seen], prepend=np.inf)) > _REST * _span(y)]
    if seen.size < 5:
        raise ValueError(f"{seen.size} samples in motion, expected a ball that bounces")
    velocity = np.diff(y[seen]) / np.diff(seen)
    before, down, up, after = velocity[:-3], velocity[1:-2], velocity[2:-1], velocity[3:]
    turns = (np.minimum(before, down) > 0) & (np.maximum(up, after) < 0)
    return seen[2:-2][turns & (before - after > _JUMP * np.abs(velocity).max())]


def _flights(t: NDArray, y: NDArray, turns: NDArray) -> list[Polynomial]:
    """Fit parabolas between the lowest samples, which may belong to either."""
    parabolas = []
    edges = [-np.inf, *turns, np.inf]
    for i, (begin, end) in enumerate(pairwise(edges)):
        part = (t > begin) & (t < end) & np.isfinite(y)
        if part.sum() < _FEWEST:
            raise ValueError(f"{part.sum()} samples in flight {i}, expected at least {_FEWEST}; {_FLAGS}")
        parabolas.append(Polynomial.fit(t[part], y[part], 2).convert())
        if not parabolas[-1].coef[2] > 0:
            raise ValueError(f"flight {i} bends upwards, expected a ball that falls; {_FLAGS}")
    gravities = [2 * parabola.coef[2] for parabola in parabolas]
    if max(gravities) > _UNLIKE * min(gravities):
        raise ValueError(
            f"flights fall with {', '.join(f'{g:.3g}' for g in gravities)}, expected one gravity; {_FLAGS}"
        )
    return parabolas


def _meeting(before: Polynomial, after: Polynomial) -> float:
    roots = (before - after).roots()
    times = roots[np.isreal(roots)].real
    times = times[(before.deriv()(times) > 0) & (after.deriv()(times) < 0)]
    if times.size == 0:
        raise ValueError("two flights do not meet, expected a bounce between them")
    return float(times[0])


def _start(flights: Sequence[Polynomial], meet: Sequence[float]) -> dict[str, NDArray | float]:
    ratios = [-b.deriv()(t) / a.deriv()(t) for a, b, t in zip(flights, flights[1:], meet, strict=False)]
    restitution = np.clip(ratios, *RESTITUTION_STARTS)
    return {
        "q0": np.array([flights[0](0.0)]),
        "u0": np.array([flights[0].deriv()(0.0)]),
        "restitution": float(restitution[0]),
        "later_restitution": restitution[1:],
        "gravity": float(np.mean([2 * flight.coef[2] for flight in flights])),
        "floor": float(np.median([flight(t) for flight, t in zip(flights, meet, strict=False)])),
    }
