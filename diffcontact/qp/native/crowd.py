"""The searches among very many rows and contacts as JAX primitives: their batches, and what they are lowered to where.

All operands of a batch have its leading axes. The last result of each is the memory that the kernel works in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching

from diffcontact.qp.matrix_free.anderson import ManyContacts
from diffcontact.qp.matrix_free.conjugate_gradients import Dual
from diffcontact.qp.matrix_free.unit_contacts import UnitContacts
from diffcontact.qp.matrix_free.unit_rows import UnitRows
from diffcontact.qp.native import targets
from diffcontact.qp.native.layout import needed_by_contacts, needed_by_rows


def pushed(dual: Dual, x, mask):
    """`Dual.solved` of the rows of a mask (c,), by the kernel; the others keep their multipliers.

    Args:
        dual: of all rows.
        x: (c,) multipliers to start from.
        mask: (c,) bool, the rows that are worked on.

    Returns:
        (c,) multipliers, and () their residual.
    """
    rows = dual.rows
    found, residual, _ = _rows.bind(dual.at_v, rows.bodies, rows.normals, rows.inverse, x, mask, dual.enough)
    return found, residual


def rubbed(contacts: ManyContacts, r, mask, enough):
    """`ManyContacts.solved` of the contacts of a mask (c,), by the kernel; the others keep their reactions.

    Args:
        contacts: all of them.
        r: (1 + k, c) reactions to start from.
        mask: (c,) bool, those that are worked on.
        enough: () the projected step that is short enough.

    Returns:
        (1 + k, c) reactions, and () int32, how many steps were made.
    """
    rows, coulomb = contacts.rows, jnp.asarray(contacts.coulomb, jnp.int32)
    given = contacts.free, rows.bodies, rows.entries, rows.inverse, contacts.friction, r, mask, enough, coulomb
    found, number, _ = _contacts.bind(*given)
    return found, number


def _rows_in_jax(at_v, bodies, normals, inverse, x, mask, enough):
    """The same without the kernel, one problem: rows that are off have no entries and no multiplier."""
    mass = jnp.where(inverse > 0, 1 / jnp.where(inverse > 0, inverse, 1), 0)
    rows = UnitRows(bodies, jnp.where(mask[None, None], normals, 0), mass, inverse)
    found, residual = Dual(jnp.where(mask, at_v, 0), rows, enough).solved(jnp.where(mask, x, 0))
    return jnp.where(mask, found, x), residual


def _contacts_in_jax(free, bodies, entries, inverse, friction, r, mask, enough, coulomb):
    """The same without the kernel, one problem: contacts that are off have no rows and no reaction."""

    def by(law):
        rows = UnitContacts(bodies, jnp.where(mask[None, None, None], entries, 0), inverse)
        all = ManyContacts(jnp.where(mask[None], free, 0), rows, friction, law)
        found, number = all.solved(jnp.where(mask[None], r, 0), enough)
        return jnp.where(mask[None], found, r), number

    return jax.lax.cond(coulomb != 0, lambda: by(True), lambda: by(False))


def _primitive(name: str, results: Callable, in_jax: Callable) -> Primitive:
    """A search.

    Args:
        name: its own.
        results: operands of a batch -> its leading axes, shapes and types of what it gives, and the bytes it takes.
        in_jax: the same without the kernel, one problem, but for the memory.
    """
    primitive = Primitive(f"diffcontact_{name}")
    primitive.multiple_results = True
    compiled: Any = jax.jit(primitive.bind)
    primitive.def_impl(lambda *operands: compiled(*operands))

    def kinds(operands):
        _, own, memory = results(*operands)
        return [*own, ((memory,), np.dtype(np.uint8))]

    @primitive.def_abstract_eval
    def _(*operands):
        return [operands[0].update(shape=shape, dtype=dtype, weak_type=False) for shape, dtype in kinds(operands)]

    def batched(operands, axes):
        size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
        full = [
            jnp.broadcast_to(x[None], (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
            for x, axis in zip(operands, axes, strict=True)
        ]
        return primitive.bind(*full), [0, 0, None]

    def pure(*operands):
        one = in_jax
        for _ in results(*operands)[0]:
            one = jax.vmap(one)
        return [*one(*operands), jnp.zeros(*kinds(operands)[-1])]

    batching.primitive_batchers[primitive] = batched
    targets.lower(primitive, "searches", pure)
    return primitive


def _of_rows(at_v, bodies, normals, inverse, x, mask, enough):
    batch, (sides, components, count) = enough.shape, normals.shape[-3:]
    own = [(x.shape, x.dtype), (batch, x.dtype)]
    return batch, own, needed_by_rows(count, inverse.shape[-1], components, sides)


def _of_contacts(free, bodies, entries, inverse, friction, r, mask, enough, coulomb):
    batch, (components, directions, count) = enough.shape, entries.shape[-3:]
    own = [(r.shape, r.dtype), (batch, np.dtype(np.int32))]
    return batch, own, needed_by_contacts(count, inverse.shape[-2] - 1, components, directions)


_rows = _primitive("rows", _of_rows, _rows_in_jax)
_contacts = _primitive("contacts", _of_contacts, _contacts_in_jax)
