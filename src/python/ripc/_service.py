# SPDX-License-Identifier: LGPL-2.1-or-later
"""Services."""
import errno
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Iterator, Optional

from . import _errors
from ._errors import Destination, destination, milliseconds
from ._items import Data, item_list
from ._message import Message
from ._ripc import ffi, lib

if TYPE_CHECKING:
    from ._context import Context

# A call of the main thread returns this often to Python, which then runs its signal handlers.
SLICE_MS = 100

_receive = lib.glue_receive
_send = lib.glue_send
_free = lib.glue_message_free
_gc = ffi.gc
_new = ffi.new
_INPROGRESS = -errno.EINPROGRESS


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def slice_ms(ms: int) -> int:
    """How long to wait in one call of the library."""
    return SLICE_MS if not 0 <= ms <= SLICE_MS and _in_main() else ms


class _Until:
    """The time left of a timeout in milliseconds."""

    __slots__ = ("end",)

    def __init__(self, ms: int) -> None:
        self.end = None if ms < 0 else time.monotonic() + ms / 1000

    def left_ms(self) -> int:
        if self.end is None:
            return -1
        return max(0, -int((time.monotonic() - self.end) * 1000 // 1))


class Service:
    """A service id with its receive queue. Context.register() makes one.

    Any thread may call any method. close(), or the end of a ``with`` block, ends the service.
    Iterate over a service to receive its messages until it is closed.
    """

    __slots__ = ("_context", "_glue", "_service", "_aio", "_out", "__weakref__")

    def __init__(self, context: "Context", service: Any) -> None:
        self._context = context
        self._glue = context._glue
        self._service = service
        self._aio: Any = None

    @property
    def context(self) -> "Context":
        """The context that holds the service."""
        return self._context

    @property
    def id(self) -> int:
        """Its id; 0 after it was closed."""
        return lib.ripc_service_id(self._service)

    def __repr__(self) -> str:
        return f"<ripc.Service {self.id}>" if self.id else "<ripc.Service, closed>"

    def fileno(self) -> int:
        """A descriptor that is readable while receive() would not wait: for select and the like.
        Never read or close it."""
        return _errors.check(lib.ripc_service_fd(self._service))

    # ---- receive

    def receive(self, timeout: Optional[float] = None) -> Message:
        """Takes the next message. Raises Timeout if none came within timeout seconds (with 0:
        WouldBlock, which is a Timeout), and Closed when the service has ended."""
        ms = -1 if timeout is None else milliseconds(timeout)
        out = _new("struct glue_message **")
        rc = _receive(self._glue, self._service,
                      ms if 0 <= ms <= SLICE_MS else SLICE_MS, out)
        if rc:
            if ms == 0 or 0 < ms <= SLICE_MS or rc != -errno.ETIMEDOUT:
                raise _errors.error(rc)
            self._wait(ms - SLICE_MS if ms > 0 else ms, out)
        return Message(_gc(out[0], _free))

    def _wait(self, ms: int, out: Any) -> None:
        until = _Until(ms)
        while True:
            left = until.left_ms()
            wait = slice_ms(left)
            rc = _receive(self._glue, self._service, wait, out)
            if not rc:
                return
            if wait == left or rc != -errno.ETIMEDOUT:
                raise _errors.error(rc)

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                message = self.receive()
            except _errors.Closed:
                return
            yield message
            del message

    # ---- send

    def send(self, dest: Destination, data: Data, timeout: Optional[float] = 30.0, *,
             reliable: bool = False, more: bool = False) -> None:
        """Sends a message to a service, given by its id or its name. data is an item (an object
        with bytes) or a list of up to 64 items.

        A small message is sent as a short one: it is delivered at most once, and the call returns
        when it was passed to the network. With reliable=True it is delivered exactly once and in
        order; flush() waits for that. A message that is too large for a short one is always
        delivered exactly once, and the call returns when it has arrived. more=True: other messages
        follow at once."""
        ms = -1 if timeout is None else milliseconds(timeout)
        flags = (reliable and lib.RIPC_RELIABLE) | (more and lib.RIPC_MORE)
        if type(dest) is not int:  # pylint: disable=unidiomatic-typecheck
            dest = destination(dest)
        request = _new("struct ripc_request **")
        if type(data) is bytes:  # pylint: disable=unidiomatic-typecheck
            kept: Any = data

            def attempt(wait: int) -> int:
                return _send(self._service, dest, data, len(data), flags, wait, request)
        else:
            items, n, kept = item_list(data)

            def attempt(wait: int) -> int:
                return lib.glue_send_items(self._service, dest, items, n, flags, wait, request)
        rc = attempt(ms if 0 <= ms <= SLICE_MS else SLICE_MS)
        if rc or request[0] != ffi.NULL:
            self._finish_send(rc, ms, attempt, request, kept)

    def _finish_send(self, rc: int, ms: int, attempt: Callable[[int], int], request: Any,
                     _kept: Any) -> None:
        """Tries again until the time is up, then waits for a long message."""
        until = _Until(ms)
        first = True
        while rc:
            # Nobody was found in the slice, or there was no credit: go on while there is time.
            left = until.left_ms() if ms < 0 else until.left_ms() - (SLICE_MS if first else 0)
            first = False
            if rc not in (-errno.ETIMEDOUT, -errno.EHOSTUNREACH) or ms >= 0 and left <= 0:
                raise _errors.error(rc)
            rc = attempt(slice_ms(left))
        if request[0] == ffi.NULL:
            return
        try:
            while True:
                left = until.left_ms()
                wait = slice_ms(left)
                rc = lib.ripc_request_wait(request, wait)
                if request[0] == ffi.NULL:
                    break
                if wait == left:
                    rc = lib.ripc_request_cancel(request, 100)
                    if rc == -errno.ECANCELED:
                        raise _errors.error(errno.ETIMEDOUT,
                                            "the long message was not delivered in time")
                    break
            if rc:
                raise _errors.error(rc)
        finally:
            if request[0] != ffi.NULL:
                lib.ripc_request_cancel(request, 100)

    def flush(self, dest: Destination, timeout: Optional[float] = 30.0) -> None:
        """Waits until all messages sent with reliable=True to dest are delivered."""
        _errors.check(lib.ripc_flush(self._service, destination(dest), milliseconds(timeout)))

    # ---- calls

    def call(self, dest: Destination, data: Data, timeout: Optional[float] = 30.0, *,
             idempotent: bool = False) -> Message:
        """Sends a request and returns its answer. The service executes it at most once; with
        idempotent=True it is sent again if its holder is lost.

        Raises Refused if the service answered with an error. Timeout: errno ETIMEDOUT if the
        request was not executed, ETIME if it may have been. Unreachable: it was not executed.
        PeerLost: this is unknown."""
        ms = milliseconds(timeout)
        items, n, _kept = item_list(data)
        request = _new("struct ripc_request **")
        out = _new("struct glue_message **")
        rc = lib.glue_call(self._glue, self._service, destination(dest), items, n,
                           lib.RIPC_IDEMPOTENT if idempotent else 0, ms, slice_ms(ms), request, out)
        try:
            while rc == _INPROGRESS:
                rc = lib.glue_call_wait(self._glue, request, out, SLICE_MS)
        finally:
            if request[0] != ffi.NULL:
                lib.ripc_request_cancel(request, 100)
        return answer(rc, out)

    def serve(self, handler: Callable[[Message], Optional[Data]]) -> None:
        """Receives until the service is closed, and answers each request with the result of
        handler(message). None: the handler answers itself, or later. An exception of the handler
        is logged, and refuses the request, with its errno if it is an OSError."""
        for message in self:
            try:
                result = handler(message)
                if result is not None and message.is_request:
                    message.reply(result)
            except Exception as exception:  # pylint: disable=broad-exception-caught
                refuse(message, exception)
            del message

    # ---- groups, watches

    def join(self, group: int, timeout: Optional[float] = 10.0) -> None:
        """Becomes a member of a group: receives every message that is sent to it."""
        _errors.check(lib.ripc_group_join(self._service, group, milliseconds(timeout)))

    def leave(self, group: int) -> None:
        """Ends the membership in a group."""
        _errors.check(lib.ripc_group_leave(self._service, group))

    def send_group(self, group: int, data: Data, timeout: Optional[float] = 10.0, *,
                   more: bool = False) -> None:
        """Sends a message of at most 1024 bytes to all members of a group, each at most once."""
        items, n, _kept = item_list(data)
        options = ffi.NULL
        if more:
            options = _new("struct ripc_send_options *")
            options.size = ffi.sizeof("struct ripc_send_options")
            options.flags = lib.RIPC_MORE
        _errors.check(lib.ripc_group_send(self._service, group, items, n, options,
                                          milliseconds(timeout)))

    def watch(self, dest: Destination) -> None:
        """Asks for a message with an event when the holder of dest dies or gives it up. Each call
        gives one event."""
        _errors.check(lib.ripc_watch(self._service, destination(dest)))

    def unwatch(self, dest: Destination) -> None:
        """Ends the watches of dest."""
        _errors.check(lib.ripc_unwatch(self._service, destination(dest)))

    # ---- asyncio

    async def receive_async(self, timeout: Optional[float] = None) -> Message:
        """receive() for asyncio. No message is lost if the task is cancelled."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        return await _aio.receive(self, timeout)

    async def send_async(self, dest: Destination, data: Data, timeout: Optional[float] = 30.0, *,
                         reliable: bool = False, more: bool = False) -> None:
        """send() for asyncio. The data must not change until it returns."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        await _aio.send(self, dest, data, timeout, reliable, more)

    async def call_async(self, dest: Destination, data: Data, timeout: Optional[float] = 30.0, *,
                         idempotent: bool = False) -> Message:
        """call() for asyncio. The cancellation of the task cancels the call."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        return await _aio.call(self, dest, data, timeout, idempotent)

    async def serve_async(self, handler: Callable[[Message], Awaitable[Optional[Data]]]) -> None:
        """serve() for asyncio: each message has a task of its own."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        await _aio.serve(self, handler)

    async def reply_async(self, request: Message, data: Data) -> None:
        """Message.reply() for asyncio."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        await _aio.reply(request, self._context, data)

    def __aiter__(self) -> "Service":
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive_async()
        except _errors.Closed:
            raise StopAsyncIteration from None

    # ---- end

    def close(self) -> None:
        """Ends the service. Calls of other threads on it raise Closed. Does nothing if it has
        ended."""
        lib.ripc_service_unregister(self._service)
        if self._aio is not None:
            self._aio.end()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self, end: Any = lib.ripc_service_unregister) -> None:
        end(self._service)


def answer(rc: int, out: Any) -> Message:
    """The result of a call."""
    message = Message(_gc(out[0], _free)) if out[0] != ffi.NULL else None
    if not rc and message:
        return message
    if message:
        raise _errors.Refused(-rc, f"{_errors.error(rc).strerror}: {os.strerror(-rc)}")
    raise _errors.error(rc)


def refuse(message: Message, exception: BaseException) -> None:
    """Logs the exception of a handler and refuses its request."""
    logging.getLogger("ripc").error("a handler of service messages raised", exc_info=exception)
    try:
        if message.is_request:
            message.reply_error(_errors.errno_of(exception))
    except _errors.Error:
        # It was answered before, or the caller is gone.
        pass
