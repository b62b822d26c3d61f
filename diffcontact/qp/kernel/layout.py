"""Size the memory of one problem."""

from __future__ import annotations

from diffcontact.qp.working_set import candidate_count

# Rows of the inverse Cholesky factor that are multiplied by together.
BLOCK = 4
# Bytes up to which a problem is solved on the stack. XLA runs a loop as a graph of tasks where something in it
# touches more than 512 bytes, and as a sequence where nothing does: a step of a ball at rest takes 24 us in the one and
# 8 in the other.
STACK = 8192
# Numbers of results of each call, the memory included: they tell the kernel which problem to solve.
WORKING_SET_RESULTS, SOLVE_RESULTS = 6, 3


def in_blocks(most):
    """Round the most held rows up to whole blocks."""
    return -(-most // BLOCK) * BLOCK


def factor_size(filled):
    """Count the stored numbers of an inverse Cholesky factor, in whole blocks."""
    return filled * (filled + BLOCK) // 2


def needed_beside_stack(count, dimension, entries):
    """Return the bytes of a `rows.Workspace` asked of XLA; a result has at least one."""
    most = candidate_count(count, min(count, dimension))
    filled, rows = in_blocks(most), 2 * count * entries + 13 * count + 1
    whole = 8 * (rows + 4 * dimension + 2 * most + 2 * filled + factor_size(filled))
    return whole if whole > STACK else 1
