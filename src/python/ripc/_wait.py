# SPDX-License-Identifier: LGPL-2.1-or-later
"""Waits of the main thread in slices: signal handlers run between two of them."""
import errno
import threading
from typing import Callable, Tuple

from ._errors import Until

# A wait holds the lock of an operation for this long at most.
SLICE_MS = 100


def slice_ms(ms: int) -> int:
    """How long to wait in one call of the library."""
    if 0 <= ms <= SLICE_MS or threading.current_thread() is not threading.main_thread():
        return ms
    return SLICE_MS


def in_slices(ms: int, attempt: Callable[[int], int],
              again: Tuple[int, ...] = (-errno.ETIMEDOUT,)) -> int:
    """Repeats an attempt, which waits for a time and has no effect if it returns one of again."""
    until = Until(ms)
    while True:
        left = until.left_ms()
        wait = slice_ms(left)
        rc = attempt(wait)
        if rc not in again or wait == left:
            return rc
