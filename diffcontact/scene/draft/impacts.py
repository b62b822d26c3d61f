"""Impacts of which a table has the velocities before and after: of a ball, of two carts, or of a body that turns."""

from __future__ import annotations

from diffcontact.scene.draft.impact_table import ImpactTable, Pair, levers_of, scatter
from diffcontact.scene.draft.parts import Draft
from diffcontact.scene.draft.toml import quoted, quoted_names


def impacts(table: ImpactTable) -> Draft:
    """Impacts of a ball, of two carts, or of a body that turns."""
    normal = max(table.velocities, key=lambda pair: pair.turns)
    if len(table.velocities) == 2 and not any(pair.axis for pair in table.velocities):
        first, second = table.velocities
        ratio = "mass_ratio = { value = 1, bounds = [0.1, 10] }  # first over second"
        return _draft(table, "carts", (first, second), ratio)
    along = next((pair for pair in table.velocities if pair is not normal), None)
    if table.spins and along is not None and (found := levers_of(table, along, normal)) is not None:
        (levers, unit), rho = found
        spin = table.spins[0]
        body = (
            f"spin = {quoted_names([spin.before, spin.after])}",
            f'spin_unit = "{spin.unit}"',
            f"levers = {quoted_names(levers)}",
            f'lever_unit = "{unit}"',
            f'gyration = {{ value = {1e3 * rho:.3g}, unit = "mm" }}  # a guess, from the changes of spin',
        )
        return _draft(table, "body", (along, normal), "friction = { value = 0.2, bounds = [0, 2] }", body)
    return _draft(table, "ball", (normal,))


def _draft(
    table: ImpactTable, of: str, pairs: tuple[Pair, ...], parameter: str = "", more: tuple[str, ...] = ()
) -> Draft:
    flagged = (f"flagged = {quoted(table.flagged)}",) if table.flagged else ()
    return Draft(
        f"a table of impacts, each of {'two carts' if of == 'carts' else f'a {of}'}",
        ('kind = "impact"', f'of = "{of}"'),
        (f'noise = {{ value = {scatter(pairs):.2g}, unit = "m/s" }}  # a guess: the scatter about one restitution',),
        (
            'kind = "impacts"',
            f"before = {quoted_names([pair.before for pair in pairs])}",
            f"after = {quoted_names([pair.after for pair in pairs])}",
            f'unit = "{pairs[0].unit}"',
            *more,
            *flagged,
        ),
        (
            'restitution = { value = "from data", bounds = [0, 1] }',
            *((parameter,) if parameter else ()),
            'u0 = { value = "from data", unit = "m/s", per_run = true }',
        ),
    )
