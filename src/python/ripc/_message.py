# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages."""
import enum
import errno
from operator import index
from typing import Any, Iterator, Optional, Union, overload

from . import _errors
from ._items import Data, Items, item_list, view
from ._ripc import ffi, lib
from ._wait import slice_ms

_buffer = ffi.buffer


class Event(enum.IntEnum):
    """What a message of Service.watch() reports."""

    NONE = 0
    DIED = 1
    MOVED = 2
    NOT_FOUND = 3


class Placement(enum.IntEnum):
    """Where the memory of a received item is."""

    RECEIVE_BUFFER = 0
    """in a receive buffer of the library"""
    POOL = 1
    """in a buffer of the library"""
    WINDOW = 2
    """in a window of the receiver: Service.add_window()"""
    RETURN_BUFFER = 3
    """in a buffer that the receiver offered for it"""
    SENDER_MEMORY = 4
    """in the memory of its sender, a process on the same host"""


class Message(Items):
    """A received message: a sequence of items, each a read-only memoryview of the memory into
    which the message was received. ``numpy.frombuffer(message[0])`` copies nothing either.

    Service.send() and the like take a Message to send it on.

    The memory is freed with the message and the last view of it. ``bytes(message)`` is a copy of
    all items together. After the context is closed, a message raises Closed. Views that exist stay
    valid.
    """

    __slots__ = ("_message", "_kept", "__weakref__")

    def __init__(self, message: Any, kept: Any = None) -> None:
        self._message = message
        # Holds the memory of the program in which its items may lie.
        self._kept = kept

    __reduce__ = _errors.no_copy

    def _get(self) -> Any:
        m = self._message
        if m is None:
            raise _errors.closed("message")
        if m.glue.closed:
            raise _errors.closed("context of the message")
        return m

    def __len__(self) -> int:
        """The number of items."""
        return self._get().message.nitems

    @overload
    def __getitem__(self, i: int) -> memoryview: ...

    @overload
    def __getitem__(self, i: slice) -> list: ...

    def __getitem__(self, i: Union[int, slice]) -> Union[memoryview, list]:
        m = self._get()
        n = m.message.nitems
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(n))]
        i = index(i)
        if not -n <= i < n:
            raise IndexError(f"item {i} of a message with {n}")
        item = m.message.items[i % n]
        return view(item.iov_base, item.iov_len, (m, self._kept)).toreadonly()

    def __iter__(self) -> Iterator[memoryview]:
        return iter(self[:])

    def __bytes__(self) -> bytes:
        m = self._get()
        message = m.message
        items = message.items
        if message.nitems == 1:
            return _buffer(items.iov_base, items.iov_len)[:] if items.iov_len else b""
        return b"".join(bytes(_buffer(items[i].iov_base, items[i].iov_len))
                        for i in range(message.nitems) if items[i].iov_len)

    def __repr__(self) -> str:
        m = self._message
        if m is None or m.glue.closed:
            return "<ripc.Message, closed>"
        kind = "request" if self.is_request else self.event.name if self.event else "message"
        return f"<ripc.Message: {kind} from {self.source}, items of " \
            f"{[m.message.items[i].iov_len for i in range(m.message.nitems)]} bytes>"

    @property
    def source(self) -> int:
        """The service that sent it, or that is watched."""
        return self._get().message.source

    @property
    def dest(self) -> int:
        """The service to which it was sent."""
        return self._get().message.dest

    @property
    def instance(self) -> bytes:
        """The instance id of the context that sent it: 16 bytes, new at every start."""
        return bytes(_buffer(self._get().message.instance))

    @property
    def is_long(self) -> bool:
        """Whether it was sent as a long message."""
        return bool(self._get().message.is_long)

    @property
    def return_buffers(self) -> int:
        """The number of return buffers that came with it: a long message to its source may land in
        them."""
        return self._get().message.nreturn_buffers

    @property
    def group(self) -> int:
        """The group to which it was sent; 0: none."""
        return self._get().message.group

    @property
    def event(self) -> Event:
        """What Service.watch() reports; Event.NONE for a message that a service sent. The item of
        an event is a text with the cause."""
        return Event(self._get().message.event)

    @property
    def is_request(self) -> bool:
        """Whether it is the request of a call, to be answered with reply()."""
        return self._get().message.call != 0

    def placement(self, item: int = 0) -> Placement:
        """Where an item lies."""
        message = self._get().message
        if not 0 <= index(item) < message.nitems:
            raise IndexError(f"item {item} of a message with {message.nitems}")
        return Placement(message.placement[item])

    @property
    def in_place(self) -> bool:
        """Whether the first item lies in the memory of its sender on the same host."""
        return self._get().message.placement[0] == lib.RIPC_IN_SENDER_MEMORY

    @property
    def deadline(self) -> Optional[float]:
        """Seconds for which the caller of the request still waits; None: for ever, or no
        request."""
        ms = lib.ripc_message_deadline(self._get().message)
        return None if ms < 0 else ms / 1000

    @property
    def cancelled(self) -> bool:
        """Whether the caller of the request does not wait any more."""
        return _errors.check(lib.ripc_message_cancelled(self._get().message)) > 0

    def reply(self, data: Data, timeout: Optional[float] = 30.0) -> None:
        """Answers the request with an item (an object with bytes) or a list of items. The timeout
        is for a long answer; a short one never waits. A request that is freed without an answer
        ends the call with ECANCELED."""
        m = self._get()
        items, n, _kept = item_list(data)
        ms = _errors.milliseconds(timeout)
        rc = lib.ripc_reply(m.message, items, n, ms if slice_ms(ms) == ms else 0)
        if rc == -errno.EAGAIN and ms:
            self._reply_long(m, items, n, ms)
        elif rc:
            raise _errors.error(rc)

    @staticmethod
    def _reply_long(m: Any, items: Any, n: int, ms: int) -> None:
        """Waits in slices."""
        request = ffi.new("struct ripc_request **")
        rc = lib.ripc_reply_start(m.message, items, n, ffi.NULL, request)
        until, late = _errors.Until(ms), False
        try:
            while request[0] != ffi.NULL and not late:
                left = until.left_ms()
                wait = slice_ms(left)
                rc = lib.ripc_request_wait(request, wait)
                late = request[0] != ffi.NULL and wait == left
        finally:
            if request[0] != ffi.NULL:
                rc = lib.ripc_request_cancel(request, 100)
        if late and rc == -errno.ECANCELED:
            raise _errors.error(errno.ETIMEDOUT, "the long answer was not delivered in time")
        _errors.check(rc)

    def reply_error(self, error: int = errno.EREMOTEIO) -> None:
        """Refuses the request: the call raises Refused with this errno."""
        try:
            rc = lib.ripc_reply_error(self._get().message, error)
        except OverflowError:
            raise ValueError(f"{error} is no error number") from None
        _errors.check(rc)

    def release(self) -> None:
        """Gives the message up now. Its memory is freed with the last view of it."""
        self._message = self._kept = None

    def __enter__(self) -> "Message":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()
