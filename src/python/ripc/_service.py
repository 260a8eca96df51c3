# SPDX-License-Identifier: LGPL-2.1-or-later
"""Services."""
import errno
import logging
from typing import (TYPE_CHECKING, Any, Awaitable, Callable, Dict, Iterator, Optional, Sequence,
                    Union)

from . import _errors
from ._errors import Destination, Until, destination, group_id, milliseconds
from ._items import Bytes, Data, Memory, item_list, members, struct
from ._memory import Targets
from ._message import Message, Placement
from ._request import Call, Request, answer
from ._ripc import ffi, lib
from ._wait import SLICE_MS, in_slices, slice_ms

if TYPE_CHECKING:
    from ._context import Context

_receive = lib.glue_receive
_send = lib.glue_send
_free = lib.glue_message_free
_gc = ffi.gc
_new = ffi.new
_INPROGRESS = -errno.EINPROGRESS
# The sentence of ripc_send() for a loss that it reports once, without sending the message.
_EARLIER = "an earlier reliable message "


class Service:
    """A service id with its receive queue. Context.register() makes one.

    Any thread may call any method. close(), or the end of a ``with`` block, ends the service.
    Iterate over a service to receive its messages until it is closed.
    """

    __slots__ = ("_context", "_glue", "_service", "_aio", "_targets", "_name", "__weakref__")

    def __init__(self, context: "Context", service: Any, name: Optional[str] = None) -> None:
        self._context = context
        self._name = name
        self._glue = context._glue
        self._aio: Any = None
        self._service = service
        # Memory of windows and return buffers, by its address.
        self._targets: Dict[int, Any] = {}

    __reduce__ = _errors.no_copy

    @property
    def context(self) -> "Context":
        """The context that holds the service."""
        return self._context

    @property
    def id(self) -> int:
        """Its id; 0 after it was closed."""
        return lib.ripc_service_id(self._service)

    @property
    def name(self) -> Optional[str]:
        """The name by which it was registered; None: by its id alone."""
        return self._name

    def _text(self) -> str:
        """As the library names it."""
        return f"{self.id} (\"{self._name}\")" if self._name else str(self.id)

    def __repr__(self) -> str:
        return f"<ripc.Service {self._text()}>" if self.id else "<ripc.Service, closed>"

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
            self._wait(ms - SLICE_MS if ms > 0 else ms, out, timeout)
        return Message(_gc(out[0], _free), self._landed(out[0]) if self._targets else None)

    def _message(self, out: Any) -> Message:
        return Message(_gc(out[0], _free), self._landed(out[0]) if self._targets else None)

    def _landed(self, m: Any) -> Any:
        """The memory of the program in which items of a message lie: theirs as long as it lives."""
        message = m.message
        return [self._targets.pop(int(ffi.cast("uintptr_t", message.items[i].iov_base)), None)
                for i in range(message.nitems)
                if message.placement[i] in (Placement.WINDOW, Placement.RETURN_BUFFER)]

    def _wait(self, ms: int, out: Any, timeout: Optional[float]) -> None:
        until = Until(ms)
        while True:
            left = until.left_ms()
            wait = slice_ms(left)
            rc = _receive(self._glue, self._service, wait, out)
            if not rc:
                return
            if rc != -errno.ETIMEDOUT:
                raise _errors.error(rc)
            if wait == left:
                raise _errors.error(rc, f"no message for service {self._text()} in {timeout:g} s")

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
             reliable: bool = False, more: bool = False,
             return_buffers: Union[Bytes, Sequence[Bytes], None] = None) -> None:
        """Sends a message to a service, given by its id or its name. data is an item (an object
        with bytes), a list of up to 64 items, or a Message, which is sent on.

        A small message is sent as a short one: it is delivered at most once, and the call returns
        when it was passed to the network. With reliable=True it is delivered exactly once and in
        order; flush() waits for that. A message that is too large for a short one is always
        delivered exactly once, and the call returns when it has arrived. more=True: other messages
        follow at once. return_buffers: as of start_send(), which the message then uses."""
        ms = -1 if timeout is None else milliseconds(timeout)
        if return_buffers is not None:
            request = self.start_send(dest, data, return_buffers=return_buffers)
            try:
                request.wait(timeout)
            except _errors.WouldBlock:
                if request.cancel():
                    raise _errors.error(errno.ETIMEDOUT,
                                        "the long message was not delivered in time") from None
                request.wait(0)
            return
        flags = (reliable and lib.RIPC_RELIABLE) | (more and lib.RIPC_MORE)
        # pylint: disable-next=unidiomatic-typecheck
        if type(dest) is not int or not 0 <= dest < 1 << 64:
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
        # The first slice is over, or a long message has started at once.
        until = Until(max(0, ms - SLICE_MS) if rc and ms >= 0 else ms)
        while rc:
            # Nobody was found in the slice, or there was no credit: go on while there is time.
            left = until.left_ms()
            if rc not in (-errno.ETIMEDOUT, -errno.EHOSTUNREACH) or left == 0:
                raise _errors.error(rc)
            if rc == -errno.EHOSTUNREACH:
                error = _errors.error(rc)
                if error.strerror.startswith(_EARLIER):
                    raise error
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
        dest = destination(dest)
        _errors.check(in_slices(milliseconds(timeout),
                                lambda ms: lib.ripc_flush(self._service, dest, ms)))

    def start_send(self, dest: Destination, data: Data, *,
                   return_buffers: Union[Bytes, Sequence[Bytes], None] = None) -> Request:
        """Starts a message, and returns at once. It is sent as a long message, of any size, and
        delivered exactly once. The data must not change until the Request is done. Messages to
        dest are delivered in the order in which they were started; several under way use a network
        better than one.

        return_buffers: memory of Context.alloc() or Context.register_memory(). Each item of a long
        message that dest sends back lands in the first one that it fits into, which is then used
        up. The others stay in use until the service is closed."""
        items, n, kept = item_list(data)
        options = struct("struct ripc_send_options")
        if return_buffers is not None:
            targets = Targets(self._context, return_buffers)
            options.nreturn_buffers = len(targets)
            options.return_buffers = targets.iovec
            kept.append(targets)
        request, number = _new("struct ripc_request **"), destination(dest)
        self._offer(targets if return_buffers is not None else None, lambda: lib.ripc_send_async(
            self._service, number, items, n, options, request))
        return Request(self._context, request, kept)

    def _offer(self, targets: Optional[Targets], function: Callable[[], int]) -> None:
        """Calls a function that offers memory. It is kept from before the call, because another
        thread may receive an item in it at once."""
        before = {}
        for memory in targets.memory if targets else ():
            address = int(ffi.cast("uintptr_t", memory.pointer))
            before[address] = self._targets.get(address)
            self._targets[address] = memory
        rc = function()
        if rc:
            error = _errors.error(rc)
            for address, memory in before.items():
                if memory is None:
                    self._targets.pop(address, None)
                else:
                    self._targets[address] = memory
            raise error

    # ---- windows

    def add_window(self, memory: Bytes) -> None:
        """Lets the next item of a long message to this service that fits land in this memory, which
        is of Context.alloc() or Context.register_memory(). One item uses it up:
        Message.placement() is then Placement.WINDOW."""
        targets = Targets(self._context, (memory,))
        iovec = targets.iovec[0]
        ctx = self._context._get()
        self._offer(targets, lambda: lib.ripc_window_add(ctx, self._service, iovec.iov_base,
                                                         iovec.iov_len))

    def remove_window(self, memory: Bytes) -> None:
        """Takes a window back. Raises Error with EINVAL if it is used up, and with EBUSY while an
        item arrives in it."""
        base = Memory(memory).pointer
        _errors.check(lib.ripc_window_remove(self._context._get(), base))
        self._targets.pop(int(ffi.cast("uintptr_t", base)), None)

    def stats(self) -> Dict[str, int]:
        """The counters of the service."""
        stats = struct("struct ripc_stats")
        _errors.check(lib.ripc_service_stats(self._service, stats))
        return members(stats)

    # ---- calls

    def call(self, dest: Destination, data: Data, timeout: Optional[float] = 30.0, *,
             idempotent: bool = False,
             into: Union[Bytes, Sequence[Bytes], None] = None) -> Message:
        """Sends a request and returns its answer. The service executes it at most once; with
        idempotent=True it is sent again if its holder is lost.

        into: writable memory for the answer, such as a numpy array, or a list of it. Each item of
        the answer lands in the first one that it fits into, and the Message refers to it. Memory
        that the library does not know is registered for the call: for many calls over an adapter
        take Context.alloc() or Context.register_memory().

        Raises Refused if the service answered with an error. Timeout: errno ETIMEDOUT if the
        request was not executed, ETIME if it may have been. Unreachable: it was not executed.
        PeerLost: this is unknown."""
        ms = milliseconds(timeout)
        items, n, _kept = item_list(data)
        targets = None if into is None else Targets(self._context, into, temporary=True)
        request = _new("struct ripc_request **")
        out = _new("struct glue_message **")
        try:
            rc = lib.glue_call(self._glue, self._service, destination(dest), items, n,
                               targets.iovec if targets else ffi.NULL, len(targets or ()),
                               lib.RIPC_IDEMPOTENT if idempotent else 0, ms, slice_ms(ms), request,
                               out)
            while rc == _INPROGRESS:
                rc = lib.glue_call_wait(self._glue, request, out, SLICE_MS)
        finally:
            if request[0] != ffi.NULL:
                lib.ripc_request_cancel(request, 100)
            if targets:
                targets.release()
        return answer(rc, out, targets)

    def start_call(self, dest: Destination, data: Data, timeout: Optional[float] = 30.0, *,
                   idempotent: bool = False,
                   into: Union[Bytes, Sequence[Bytes], None] = None) -> Call:
        """Starts a call, and returns at once: Call.wait() returns the answer. The arguments are
        those of call(). The data must not change until the Call is done."""
        ms, dest = milliseconds(timeout), destination(dest)
        items, n, kept = item_list(data)
        targets = None if into is None else Targets(self._context, into, temporary=True)
        request = _new("struct ripc_request **")
        rc = lib.ripc_call_start(self._service, dest, items, n,
                                 call_options(idempotent, targets), ms, request)
        if rc:
            error = _errors.error(rc)
            if targets:
                targets.release()
            raise error
        return Call(self._context, request, kept, targets)

    def serve(self, handler: Callable[[Message], Optional[Data]]) -> None:
        """Receives until the service is closed, and answers each request with the result of
        handler(message). None: the handler answers itself, or later. An exception of the handler
        is logged, and refuses the request, with its errno if it is an OSError."""
        if not callable(handler):
            raise TypeError(f"a handler is a function, not {type(handler).__name__}")
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
        _errors.check(lib.ripc_group_join(self._service, group_id(group),
                                          milliseconds(timeout)))

    def leave(self, group: int) -> None:
        """Ends the membership in a group."""
        _errors.check(lib.ripc_group_leave(self._service, group_id(group)))

    def send_group(self, group: int, data: Data, timeout: Optional[float] = 10.0, *,
                   more: bool = False) -> None:
        """Sends a message of at most 1024 bytes to all members of a group, each at most once."""
        items, n, _kept = item_list(data)
        options = ffi.NULL
        if more:
            options = struct("struct ripc_send_options")
            options.flags = lib.RIPC_MORE
        _errors.check(lib.ripc_group_send(self._service, group_id(group), items, n, options,
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
                         idempotent: bool = False,
                         into: Union[Bytes, Sequence[Bytes], None] = None) -> Message:
        """call() for asyncio. The cancellation of the task cancels the call."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        return await _aio.call(self, dest, data, timeout, idempotent, into)

    async def serve_async(self, handler: Callable[[Message], Awaitable[Optional[Data]]]) -> None:
        """serve() for asyncio: each message has a task of its own."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        await _aio.serve(self, handler)

    async def reply_async(self, request: Message, data: Data) -> None:
        """Message.reply() for asyncio."""
        from . import _aio  # pylint: disable=import-outside-toplevel
        if not isinstance(request, Message):
            raise TypeError(f"a Message is required, not {type(request).__name__}")
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
        self._context._handles.discard(self._service)
        if self._aio is not None:
            self._aio.end()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self, end: Any = lib.ripc_service_unregister) -> None:
        if hasattr(self, "_service"):
            end(self._service)
            self._context._handles.discard(self._service)
            if self._aio is not None:
                self._aio.end()


def call_options(idempotent: bool, targets: Optional[Targets], data: int = 0) -> Any:
    """Options of a call. targets: to be kept as long as the options."""
    options = struct("struct ripc_call_options")
    options.flags = lib.RIPC_IDEMPOTENT if idempotent else 0
    options.data = ffi.cast("void *", data)
    if targets:
        options.nreply_buffers = len(targets)
        options.reply_buffers = targets.iovec
    return options


def refuse(message: Message, exception: BaseException) -> None:
    """Logs the exception of a handler and refuses its request. Nobody misses an answer that came
    too late: no exception."""
    if isinstance(exception, _errors.Error) and exception.errno == errno.ECANCELED and \
            message.is_request and message.cancelled:
        return
    logging.getLogger("ripc").error("a handler of service messages raised", exc_info=exception)
    try:
        if message.is_request:
            message.reply_error(_errors.errno_of(exception))
    except _errors.Error:
        # It was answered before, or the caller is gone.
        pass
