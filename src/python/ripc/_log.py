# SPDX-License-Identifier: LGPL-2.1-or-later
"""The log of the library, by way of logging."""
import logging
import os
import threading
from typing import Optional, Union

from ._ripc import lib

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_lock = threading.Lock()
_write_fd = -1
_logger = logging.getLogger("ripc")


def log_to(logger: Union[logging.Logger, str, None] = "ripc",
           level: Optional[int] = None) -> None:
    """Sends the log of the library, of all contexts of the process, to a logger. None ends that.

    level: the lowest level to send, as in logging; None: that of the logger. A thread of Python
    reads the lines, so that a handler may use the library. Lines are lost while a handler is
    slower than the library."""
    global _logger, _write_fd  # pylint: disable=global-statement
    if not isinstance(logger, (logging.Logger, str, type(None))):
        raise TypeError(f"a logger, its name or None is required, not {type(logger).__name__}")
    if not isinstance(level, (int, type(None))):
        raise TypeError("a level is an int, as logging.INFO is, or None, not "
                        f"{type(level).__name__}")
    with _lock:
        if logger is None:
            lib.glue_log(-1, 0)
            return
        _logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        if level is None:
            level = _logger.getEffectiveLevel()
        if _write_fd < 0:
            read_fd, _write_fd = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(_write_fd, False)
            threading.Thread(target=_read, args=(read_fd,), name="ripc-log", daemon=True).start()
        highest = max((i for i, known in enumerate(_LEVELS) if known >= level), default=0)
        lib.glue_log(_write_fd, highest)


def _read(fd: int) -> None:
    with open(fd, "rb") as lines:
        for line in lines:
            text = line[1:-1].decode(errors="replace")
            _logger.log(_LEVELS[line[0] - ord("0")], "%s", text)


def _after_fork() -> None:
    """The child has no thread that reads."""
    global _lock, _write_fd  # pylint: disable=global-statement
    lib.glue_log(-1, 0)
    _lock = threading.Lock()
    _write_fd = -1


os.register_at_fork(after_in_child=_after_fork)
