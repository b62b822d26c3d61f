"""The search among very many contacts that rub as a JAX primitive: its batches, and what it is lowered to where."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from diffcontact.qp.matrix_free.anderson import ManyContacts
from diffcontact.qp.matrix_free.unit_contacts import UnitContacts
from diffcontact.qp.native.layout import needed_by_contacts
from diffcontact.qp.native.primitive import TARGET

_search = Primitive(f"{TARGET}_contacts")
_search.multiple_results = True


def solved(contacts: ManyContacts, r, mask, enough):
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
    found, number, _ = _search.bind(*given)
    return found, number


def _in_jax(free, bodies, entries, inverse, friction, r, mask, enough, coulomb):
    """The same without the kernel, one problem: contacts that are off have no rows and no reaction."""

    def by(law):
        rows = UnitContacts(bodies, jnp.where(mask[None, None, None], entries, 0), inverse)
        all = ManyContacts(jnp.where(mask[None], free, 0), rows, friction, law)
        found, number = all.solved(jnp.where(mask[None], r, 0), enough)
        return jnp.where(mask[None], found, r), number

    return jax.lax.cond(coulomb != 0, lambda: by(True), lambda: by(False))


def _shapes(operands):
    """The leading axes, and shapes and types of all results."""
    batch = operands[7].shape
    (_, components, directions, count), bodies = operands[2].shape[-4:], operands[3].shape[-2] - 1
    memory = needed_by_contacts(count, bodies, components, directions)
    number = (batch, np.dtype(np.int32))
    return batch, [(operands[5].shape, operands[5].dtype), number, ((memory,), np.dtype(np.uint8))]


@_search.def_abstract_eval
def _(*operands):
    return [operands[0].update(shape=shape, dtype=dtype, weak_type=False) for shape, dtype in _shapes(operands)[1]]


def _batched(operands, axes):
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    full = [
        jnp.broadcast_to(x[None], (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    return _search.bind(*full), [0, 0, None]


def _pure(*operands):
    batch, kinds = _shapes(operands)
    one = _in_jax
    for _ in batch:
        one = jax.vmap(one)
    return [*one(*operands), jnp.zeros(*kinds[-1])]


_compiled: Any = jax.jit(_search.bind)
_search.def_impl(lambda *operands: _compiled(*operands))
batching.primitive_batchers[_search] = _batched
mlir.register_lowering(_search, mlir.lower_fun(_pure, multiple_results=True))
mlir.register_lowering(_search, jax.ffi.ffi_lowering(TARGET), platform="cpu")
