# SPDX-License-Identifier: LGPL-2.1-or-later
"""Errors: every failure of the library is an Error, a subclass of OSError."""
import errno
import operator
import time
from typing import Any, Optional, Union

from ._ripc import ffi, lib


class Error(OSError):
    """A call of the library failed.

    ``errno`` is the number, and ``strerror`` the sentence of the library that names the service,
    the peer, the transport and the cause.
    """


class Timeout(Error, TimeoutError):
    """The time was up: also the builtin TimeoutError."""


class WouldBlock(Timeout, BlockingIOError):
    """A call with timeout 0 would have had to wait (EAGAIN), or a message or a call is still under
    way (EINPROGRESS)."""


class Unreachable(Error, ConnectionError):
    """Nobody holds the service, or its holder cannot be reached (EHOSTUNREACH)."""


class PeerLost(Error, BrokenPipeError):
    """The peer died or became unreachable; it is unknown whether it has the message (EPIPE)."""


class Closed(Error, BrokenPipeError):
    """The service or its context is closed, or belongs to the parent of a fork()."""


class Refused(Error):
    """The service answered a call with an error, or dropped the request without an answer."""


_CLASSES = {
    errno.ETIMEDOUT: Timeout,
    errno.ETIME: Timeout,
    errno.EAGAIN: WouldBlock,
    errno.EINPROGRESS: WouldBlock,
    errno.EHOSTUNREACH: Unreachable,
    errno.EPIPE: PeerLost,
    errno.ESHUTDOWN: Closed,
    errno.EOWNERDEAD: Closed,
}


def error(number: int, sentence: Optional[str] = None) -> Error:
    """The exception for an error number, positive or negative, of the last call of this thread."""
    number = abs(number)
    if number == lib.GLUE_CLOSED:
        return closed("context")
    if sentence is None:
        sentence = ffi.string(lib.ripc_error_detail()).decode(errors="replace")
    if not sentence:
        sentence = ffi.string(lib.ripc_strerror(number)).decode()
    return _CLASSES.get(number, Error)(number, sentence)


def closed(what: str) -> Error:
    """The exception for the use of an object that is closed."""
    return Closed(errno.ESHUTDOWN, f"the {what} is closed")


def no_copy(self: Any) -> Any:
    """For __reduce__: the end of a copy would end what the original holds."""
    raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled")


def check(result: int) -> int:
    """Raises the error of a call that failed."""
    if result < 0:
        raise error(result)
    return result


def id(name: str) -> int:  # noqa: A001
    """The id of the service with a name: the same on every machine and in every version."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {type(name).__name__}")
    if "\0" in name:
        raise ValueError("name of a service: it has a zero byte")
    number = lib.ripc_id(name.encode())
    if not number:
        raise ValueError(ffi.string(lib.ripc_error_detail()).decode(errors="replace"))
    return number


Destination = Union[int, str]
_ids: dict = {}


def destination(dest: Destination) -> int:
    """The id of a service that is given by its id or its name."""
    if isinstance(dest, str):
        number = _ids.get(dest)
        if number is None:
            number = id(dest)
            if len(_ids) < 4096:
                _ids[dest] = number
        return number
    return whole(dest, "a service is given by its id or its name", "the id of a service")


def whole(value: Any, kind: str, what: str) -> int:
    """An integer for the library, of 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{kind}, not {type(value).__name__}") from None
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{what} is from 0 to 2^64 - 1, not {number}")
    return number


def group_id(group: Any) -> int:
    return whole(group, "a group is an int", "the id of a group")


def milliseconds(timeout: Optional[float]) -> int:
    """A timeout of the library. None and infinity wait for ever; a time above 0 is rounded up to
    1 ms."""
    if timeout is None:
        return -1
    try:
        if 0 <= timeout < 2000000:
            return -int(-timeout * 1000 // 1)
        if timeout > 0:
            return -1 if timeout == float("inf") else 2**31 - 1
    except TypeError:
        raise TypeError("a timeout is a number of seconds or None, not "
                        f"{type(timeout).__name__}") from None
    raise ValueError(f"a timeout is None, 0 or positive, not {timeout}")


class Until:
    """The time left of a timeout in milliseconds."""

    __slots__ = ("end",)

    def __init__(self, ms: int) -> None:
        self.end = None if ms < 0 else time.monotonic() + ms / 1000

    def left_ms(self) -> int:
        if self.end is None:
            return -1
        return max(0, -int((time.monotonic() - self.end) * 1000 // 1))


def errno_of(exception: BaseException) -> int:
    """The error that a caller gets for an exception in a handler."""
    number = getattr(exception, "errno", None)
    if isinstance(exception, OSError) and isinstance(number, int) and number in errno.errorcode:
        return number
    return errno.EREMOTEIO
