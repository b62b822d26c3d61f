"""How much memory one problem takes, and what tells the kernel which problem it is."""

from __future__ import annotations

from diffcontact.qp.matrix_free.anderson import MEMORY

# So many rows of the inverse Cholesky factor are multiplied by together.
BLOCK = 4
# A problem that takes no more bytes is solved on the stack. XLA runs a loop as a graph of tasks where something in it
# touches more than 512 bytes, and as a sequence where nothing does: a step of a ball at rest takes 24 us in the one and
# 8 in the other.
STACK = 8192
# How many results each call has, the memory included.
WORKING_SET_RESULTS, HOLD_RESULTS, SOLVE_RESULTS = 6, 4, 3
# How many arguments the search among very many contacts has, other than that among rows.
CONTACTS_ARGUMENTS = 9


def most_held(count, dimension):
    """How many rows are held at most, relaxed ones too: as many as `diffcontact.qp.working_set` looks at together."""
    rank = min(count, dimension)
    wanted = max(rank + rank // 3, 16)
    return count if count <= 3 * wanted // 2 else wanted


def in_blocks(most):
    """How many rows those that are held at most fill up to whole blocks."""
    return -(-most // BLOCK) * BLOCK


def factor_size(filled):
    """How many numbers the inverse Cholesky factor of so many rows is stored as, whole blocks."""
    return filled * (filled + BLOCK) // 2


def needed(count, dimension, entries, most, full):
    """Bytes of a `workspace.Workspace`; `most` rows are held at once, `full`: whether the mass is a matrix."""
    size = dimension * dimension if full else dimension
    rows = 4 * count * entries + 16 * count + 1
    filled = in_blocks(most)
    return 8 * (rows + size + 4 * dimension + 2 * most + 2 * filled + factor_size(filled))


def needed_beside_stack(count, dimension, entries, most, full):
    """Bytes of memory that XLA is asked for; a result has at least one."""
    whole = needed(count, dimension, entries, most, full)
    return whole if whole > STACK else 1


def in_fours(components):
    """How many numbers of a body lie beside each other: three take the room of four, which are read at once."""
    return 4 if components == 3 else components


def needed_by_rows(count, places, components, sides):
    """Bytes of what `pushes.carve` gives: three words a row, and a space in double and one in single precision."""
    return 24 * count + (8 + 4) * (7 * count + (sides * count + 3 * places) * in_fours(components))


def needed_by_contacts(count, bodies, components, directions):
    """Bytes of a `contacts.Space`."""
    size = count * directions
    vectors = 9 * size + 2 * MEMORY * size + 2 * size * components + count + (bodies + 1) * components
    return 8 * (3 * count + vectors + 2 * MEMORY * MEMORY + 2 * MEMORY)
