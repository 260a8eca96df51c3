# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages and calls under way."""
import errno
import os
import threading
from typing import TYPE_CHECKING, Any, Optional

from . import _errors
from ._memory import Targets
from ._message import Message
from ._ripc import ffi, lib
from ._wait import SLICE_MS

if TYPE_CHECKING:
    from ._context import Context


# A context looks for dropped operations that are done when it has so many: each needs a call of the
# library. Operations that are waited for leave when they are done.
FORGET_AT = 16


class _Operation:
    """A request of the library. Its context keeps it, and its memory, until it is done."""

    __slots__ = ("_request", "_kept", "_lock", "_error", "_running", "__weakref__")

    def __init__(self, context: "Context", request: Any, kept: Any) -> None:
        self._request = request
        self._kept = kept
        # Reentrant: the garbage collector may end the context while a thread has it.
        self._lock = threading.RLock()
        self._error: Optional[_errors.Error] = None
        self._running = running = context._running
        if len(running) >= context._forget_at:
            for operation in list(running):
                if not operation._poll(0, wait_for_lock=False):
                    break
            context._forget_at = 2 * len(running) + FORGET_AT
        running[self] = None

    __reduce__ = _errors.no_copy

    def _after_fork(self) -> None:
        """A thread of the parent may have held the lock."""
        self._lock = threading.RLock()

    def _fetch(self, ms: int) -> int:
        """The result; the request becomes NULL when there is one."""
        return lib.ripc_request_wait(self._request, ms)

    def _poll(self, ms: int, wait_for_lock: bool = True) -> bool:
        """Whether it is done after at most ms milliseconds."""
        if not self._lock.acquire(wait_for_lock):
            return False
        try:
            if self._request[0] != ffi.NULL:
                self._end(self._fetch(ms))
            return self._left()
        finally:
            self._lock.release()

    def _left(self) -> bool:
        """Whether it is done. Its context does not keep it then."""
        if self._request[0] != ffi.NULL:
            return False
        self._running.pop(self, None)
        return True

    def _end(self, rc: int) -> None:
        if self._request[0] == ffi.NULL:
            self._error = _errors.error(rc) if rc else None
            self._kept = None

    @property
    def done(self) -> bool:
        """Whether wait() would return, or raise its error, at once."""
        return self._poll(0)

    def _wait(self, timeout: Optional[float]) -> None:
        until = _errors.Until(_errors.milliseconds(timeout))
        while True:
            left = until.left_ms()
            last = 0 <= left <= SLICE_MS
            if self._poll(left if last else SLICE_MS):
                break
            if last:
                raise _errors.WouldBlock(errno.EINPROGRESS, "it is still under way")
        if self._error:
            raise self._error

    def cancel(self) -> bool:
        """Gives it up. Returns False if it was done before. Its memory is free afterwards. wait()
        then raises an Error: its errno is ECANCELED if the message was not delivered or the call
        not executed."""
        return not self.done and self._withdraw()

    def _withdraw(self) -> bool:
        """cancel(), although there may be a result."""
        with self._lock:
            if self._request[0] == ffi.NULL:
                return False
            rc = lib.ripc_request_cancel(self._request, 100)
            self._end(rc)
            self._left()
            return rc != 0


class Request(_Operation):
    """A message under way, of Service.start_send(). It goes on if it is dropped, and its memory is
    kept until it is done."""

    __slots__ = ()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Returns when the message is in the memory of the receiver, or raises the error with which
        it failed. After timeout seconds: WouldBlock, and the message is still under way."""
        self._wait(timeout)


class Call(_Operation):
    """A call under way, of Service.start_call(). Its answer is lost if it is dropped."""

    __slots__ = ("_glue", "_reply", "_targets")

    def __init__(self, context: "Context", request: Any, kept: Any,
                 targets: Optional[Targets]) -> None:
        self._glue = context._glue
        self._targets = targets
        self._reply: Optional[Message] = None
        super().__init__(context, request, kept)

    def _fetch(self, ms: int) -> int:
        out = ffi.new("struct glue_message **")
        if self._request[0] == ffi.NULL:  # since the collector ran, just now
            return 0
        rc = lib.glue_call_wait(self._glue, self._request, out, ms)
        if self._request[0] == ffi.NULL:
            try:
                self._reply = answer(rc, out, self._targets)
            except _errors.Error as error:
                self._error = error
        return rc

    def _end(self, rc: int) -> None:
        if self._request[0] == ffi.NULL:
            if not self._reply and not self._error:
                # 0: it was answered just now, and the answer is lost.
                self._error = _errors.error(rc or errno.ETIME)
            self._kept = None
            if self._targets:
                self._targets.release()

    def wait(self, timeout: Optional[float] = None) -> Message:
        """Returns the answer, or raises the errors of Service.call(). After timeout seconds:
        WouldBlock, and the call is still under way."""
        self._wait(timeout)
        assert self._reply
        return self._reply


def answer(rc: int, out: Any, kept: Any = None) -> Message:
    """The result of a call. kept: holds the memory into which the answer may have come."""
    message = None
    if out[0] != ffi.NULL:
        message = Message(ffi.gc(out[0], lib.glue_message_free), kept)
    if not rc and message:
        return message
    if message:
        raise _errors.Refused(-rc, f"{_errors.error(rc).strerror}: {os.strerror(-rc)}")
    raise _errors.error(rc)
