# SPDX-License-Identifier: LGPL-2.1-or-later
"""The forms for asyncio. The event loop waits for the descriptors of services and contexts.

A future only wakes its task, which then takes the message itself: a task that is cancelled after
its future was set loses no message, and wakes the next one.
"""
import asyncio
import errno
import itertools
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Deque, Dict, Optional, Set, Tuple

from . import _errors
from ._errors import Destination, destination, milliseconds
from ._items import Data, item_list, struct
from ._memory import Targets
from ._message import Message
from ._ripc import ffi, lib
from ._request import answer
from ._service import Service, call_options, refuse

if TYPE_CHECKING:
    from ._context import Context

_Waiter = Tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
# Reentrant: the garbage collector may end another context at any point.
_lock = threading.RLock()


def _after_fork() -> None:
    """A thread of the parent may have held the lock."""
    global _lock  # pylint: disable=global-statement
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _set(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _wake(waiter: _Waiter, result: Any = None) -> None:
    """Wakes a task, from any thread."""
    loop, future = waiter
    if asyncio._get_running_loop() is loop:  # pylint: disable=protected-access
        _set(future, result)
        return
    try:
        loop.call_soon_threadsafe(_set, future, result)
    except RuntimeError:
        pass  # its loop is closed


def _deadline(timeout: Optional[float]) -> Optional[float]:
    """The time of the running loop after so many seconds; None: never."""
    milliseconds(timeout)
    never = timeout is None or timeout == float("inf")
    return None if never else asyncio.get_running_loop().time() + timeout


def _expire(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_exception(TimeoutError())


async def _until(future: "asyncio.Future[None]", deadline: Optional[float]) -> None:
    """Waits; raises TimeoutError. It takes a third of the time of asyncio.timeout()."""
    if deadline is None:
        await future
        return
    handle = future.get_loop().call_at(deadline, _expire, future)
    try:
        await future
    finally:
        handle.cancel()


class _Readable:
    """The tasks of one event loop that wait for a descriptor. It stays in the loop until it is
    readable and nobody waits, which saves two system calls for each message. It is a duplicate: the
    library closes its own, whose number may then have another use, before the loop has removed
    it."""

    def __init__(self, fd: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.fd = os.dup(fd)
        self.added = False
        self.waiters: Deque["asyncio.Future[None]"] = deque()

    def next(self) -> None:
        """The descriptor is readable, or a task was woken and did not use that."""
        while self.waiters:
            future = self.waiters.popleft()
            if not future.done():
                future.set_result(None)
                return
        self.remove()

    def remove(self) -> None:
        if self.added and not self.loop.is_closed():
            self.loop.remove_reader(self.fd)
        self.added = False

    async def wait(self, deadline: Optional[float]) -> None:
        future = self.loop.create_future()
        if not self.added:
            self.loop.add_reader(self.fd, self.next)
            self.added = True
        self.waiters.append(future)
        try:
            await _until(future, deadline)
        except (asyncio.CancelledError, TimeoutError):
            try:
                self.waiters.remove(future)
            except ValueError:
                self.next()
            raise

    def end(self) -> None:
        """The library has closed its descriptor: all tasks find that out."""
        def end() -> None:
            self.remove()
            for future in self.waiters:
                if not future.done():
                    future.set_result(None)

        try:
            if asyncio._get_running_loop() is self.loop:  # pylint: disable=protected-access
                end()
            else:
                self.loop.call_soon_threadsafe(end)
        except RuntimeError:
            pass  # the loop is closed

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Its loop does not refer to it any more."""
        if hasattr(self, "fd"):
            close(self.fd)


class _Readers:
    """A _Readable for each event loop that waits for an object of the library."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.ended = False
        self.readers: Dict[asyncio.AbstractEventLoop, _Readable] = {}

    def get(self, descriptor: Callable[[], int]) -> _Readable:
        """descriptor() is called once per loop: it waits for the lock of the context."""
        loop = asyncio.get_running_loop()
        reader = self.readers.get(loop)
        if reader is None:
            reader = _Readable(descriptor())
            with _lock:
                for old in [old for old in self.readers if old.is_closed()]:
                    del self.readers[old]
                if self.ended:
                    raise _errors.closed(self.what)
                self.readers[loop] = reader
        return reader

    def end(self) -> None:
        with _lock:
            self.ended = True
            readers, self.readers = self.readers, {}
        for reader in readers.values():
            reader.end()


class _Completions(_Readers):
    """The requests of a context that tasks wait for, and destinations without room."""

    def __init__(self, context: "Context") -> None:
        super().__init__("context")
        # Not the context: a loop, which refers to this object, does not keep it.
        self.ctx = context._ctx
        self.numbers = itertools.count(1)
        self.requests: Dict[int, _Waiter] = {}
        self.full: Dict[int, Set[_Waiter]] = {}
        self.completion = struct("struct ripc_completion")

    def start(self) -> None:
        """The running loop takes part from now on."""
        reader = self.get(lambda: _errors.check(lib.ripc_completion_fd(self.ctx)))
        if not reader.added:
            reader.next = self.dispatch  # type: ignore[method-assign]
            reader.loop.add_reader(reader.fd, self.dispatch)
            reader.added = True

    def dispatch(self) -> None:
        with _lock:
            c = self.completion
            while not lib.ripc_completion_next(self.ctx, c, 0):
                if c.kind == lib.RIPC_COMPLETION_REQUEST:
                    waiter = self.requests.pop(int(ffi.cast("uintptr_t", c.data)), None)
                    if waiter:
                        _wake(waiter)
                elif c.kind == lib.RIPC_COMPLETION_SENDABLE:
                    for waiter in self.full.pop(c.dest, ()):
                        _wake(waiter)

    def end(self) -> None:
        super().end()
        with _lock:
            waiters = list(self.requests.values())
            for full in self.full.values():
                waiters += full
        for waiter in waiters:
            _wake(waiter)


def _completions(context: "Context") -> _Completions:
    context._get()
    with _lock:
        if context._aio is None:
            context._aio = _Completions(context)
    context._aio.start()
    return context._aio


def _waiter() -> _Waiter:
    loop = asyncio.get_running_loop()
    return loop, loop.create_future()


async def _finish(completions: _Completions, number: int, waiter: _Waiter, request: Any,
                  kept: Any, targets: Optional[Targets] = None,
                  deadline: Optional[float] = None) -> bool:
    """Waits until a request is done. If the task is cancelled, or time is up, so is the request.
    Returns False if time was up and the message has arrived nevertheless."""
    try:
        await _until(waiter[1], deadline)
        return True
    except BaseException as e:
        completions.requests.pop(number, None)
        result = _cancel_later(waiter[0], request, kept, targets)
        if not isinstance(e, TimeoutError):
            raise
    error = await result
    if error:
        raise TimeoutError if error.errno == errno.ECANCELED else error
    return False


def _cancel(request: Any, _kept: Any, targets: Optional[Targets] = None) -> Optional[_errors.Error]:
    """Returns the error of the request. Its memory is kept until then."""
    rc = lib.ripc_request_cancel(request, 100) if request[0] != ffi.NULL else 0
    error = _errors.error(rc) if rc else None
    _release(targets)
    return error


def _cancel_later(loop: asyncio.AbstractEventLoop, request: Any, kept: Any,
                  targets: Optional[Targets]) -> "asyncio.Future[Optional[_errors.Error]]":
    """A thread of its own, because it may wait for the peer, which reads the memory."""
    result = loop.create_future()

    def cancel() -> None:
        _wake((loop, result), _cancel(request, kept, targets))

    try:
        threading.Thread(target=cancel, daemon=True).start()
    except RuntimeError:  # the limit of threads is reached
        cancel()
    return result


def _release(targets: Optional[Targets]) -> None:
    if targets:
        targets.release()


async def receive(service: Service, timeout: Optional[float]) -> Message:
    deadline = _deadline(timeout)
    out = ffi.new("struct glue_message **")
    while True:
        rc = lib.glue_receive(service._glue, service._service, 0, out)
        if not rc:
            return service._message(out)
        if rc != -errno.EAGAIN or timeout == 0:
            raise _errors.error(rc)
        if service._aio is None:
            with _lock:
                service._aio = service._aio or _Readers("service")
        try:
            await service._aio.get(service.fileno).wait(deadline)
        except TimeoutError:
            raise _errors.error(errno.ETIMEDOUT, f"no message for service {service._text()} in "
                                f"{timeout:g} s") from None


async def call(service: Service, dest: Destination, data: Data, timeout: Optional[float],
               idempotent: bool, into: Any) -> Message:
    completions = _completions(service.context)
    items, n, kept = item_list(data)
    ms, dest = milliseconds(timeout), destination(dest)
    targets = None if into is None else Targets(service.context, into, temporary=True)
    number = next(completions.numbers)
    options = call_options(idempotent, targets, number)
    request = ffi.new("struct ripc_request **")
    waiter = completions.requests[number] = _waiter()
    rc = lib.ripc_call_start(service._service, dest, items, n, options, ms, request)
    if rc:
        del completions.requests[number]
        error = _errors.error(rc)
        _release(targets)
        raise error
    await _finish(completions, number, waiter, request, kept, targets)
    out = ffi.new("struct glue_message **")
    rc = lib.glue_call_wait(service._glue, request, out, 0)
    if rc == -errno.EINPROGRESS:  # its context is being closed
        _cancel(request, kept, targets)
        raise _errors.closed("context")
    _release(targets)
    return answer(rc, out, targets)


def _options(number: int) -> Any:
    options = struct("struct ripc_send_options")
    options.data = ffi.cast("void *", number)
    return options


async def _long(context: "Context", start: Callable[[Any, Any], int], kept: Any,
                deadline: Optional[float] = None) -> None:
    """Starts a long message or answer, and waits until it has arrived."""
    completions = _completions(context)
    number = next(completions.numbers)
    request = ffi.new("struct ripc_request **")
    waiter = completions.requests[number] = _waiter()
    rc = start(_options(number), request)
    if rc:
        del completions.requests[number]
        raise _errors.error(rc)
    if not await _finish(completions, number, waiter, request, kept, deadline=deadline):
        return
    rc = lib.ripc_request_wait(request, 0)
    if request[0] != ffi.NULL:
        _cancel(request, kept)
        raise _errors.closed("context")
    if rc:
        raise _errors.error(rc)


def _late(context: "Context", dest: int) -> _errors.Error:
    """The error of a short message that could not be sent in time, as of send(). The sentence is
    that of the last attempt."""
    sentence = _errors.error(errno.EAGAIN).strerror
    route = context.route(dest)
    return _errors.error(errno.ETIMEDOUT if route and route["connected"] else errno.EHOSTUNREACH,
                         sentence)


async def send(service: Service, dest: Destination, data: Data, timeout: Optional[float],
               reliable: bool, more: bool) -> None:
    deadline, number = _deadline(timeout), destination(dest)
    items, n, kept = item_list(data)
    options = _options(0)
    options.flags = (reliable and lib.RIPC_RELIABLE) | (more and lib.RIPC_MORE)

    def attempt() -> int:
        return lib.ripc_send_short(service._service, number, items, n, options, 0)

    rc = attempt() if sum(map(len, kept[1:])) <= 65536 else -errno.EMSGSIZE
    while rc == -errno.EAGAIN and timeout != 0:
        completions = _completions(service.context)
        waiter = _waiter()
        with _lock:
            completions.full.setdefault(number, set()).add(waiter)
        try:
            # A report may have come before the entry in the table: try once more after it.
            rc = attempt()
            if rc == -errno.EAGAIN:
                await _until(waiter[1], deadline)
                rc = attempt()
        except TimeoutError:
            rc = attempt()
            if rc == -errno.EAGAIN:
                raise _late(service.context, number) from None
        finally:
            with _lock:
                full = completions.full.get(number, set())
                full.discard(waiter)
                if not full:
                    completions.full.pop(number, None)
    if rc == -errno.EMSGSIZE:
        try:
            await _long(service.context, lambda o, request: lib.ripc_send_async(
                service._service, number, items, n, o, request), kept, deadline)
        except TimeoutError as e:
            if isinstance(e, _errors.Error):
                raise
            raise _errors.error(errno.ETIMEDOUT,
                                f"the long message was not delivered in {timeout} s") from None
    elif rc:
        raise _errors.error(rc)


async def reply(message: Message, context: "Context", data: Data) -> None:
    m = message._get()
    items, n, kept = item_list(data)
    rc = lib.ripc_reply(m.message, items, n, 0)
    if rc == -errno.EAGAIN:
        await _long(context, lambda o, request: lib.ripc_reply_start(
            m.message, items, n, o, request), (kept, m))
    elif rc:
        raise _errors.error(rc)


async def serve(service: Service, handler: Callable[[Message], Awaitable[Optional[Data]]]) -> None:
    tasks: Set["asyncio.Task[None]"] = set()
    if not callable(handler):
        raise TypeError(f"a handler is a function, not {type(handler).__name__}")

    async def handle(message: Message) -> None:
        try:
            result = await handler(message)
            if result is not None and message.is_request:
                await reply(message, service.context, result)
        except Exception as exception:  # pylint: disable=broad-exception-caught
            refuse(message, exception)

    try:
        async for message in service:
            task = asyncio.create_task(handle(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            del message
    finally:
        for task in tasks:
            task.cancel()
