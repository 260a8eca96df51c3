# SPDX-License-Identifier: LGPL-2.1-or-later
"""Contexts."""
import atexit
import errno
import gc
import os
import weakref
from typing import Any, Dict, List, Optional, Set, Tuple, Union

from . import _errors
from ._errors import Destination, destination, group_id, milliseconds, whole
from ._items import Bytes, Memory, members, struct, text, view
from ._memory import Registration
from ._request import _Operation
from ._ripc import ffi, lib
from ._service import Service
from ._wait import in_slices

_open: "weakref.WeakSet[Context]" = weakref.WeakSet()


class Context:
    """One instance of the library: its transports, its resolver and its thread.

    Settings, as in ripc(7), are a string or keywords: ``Context("wait=poll")``,
    ``Context(transports="shm,self", log="info")``. Most programs need none.

    close(), or the end of a ``with`` block, ends the services of the context. Views of messages
    and buffers stay valid; their memory, and the context's own, is freed with the last of them.
    """

    def __init__(self, options: str = "", **settings: Any) -> None:
        # Operations under way, oldest first, and when to look for those that are done.
        self._running: Dict[_Operation, None] = {}
        self._forget_at = 0
        self._registrations: Set[Registration] = set()
        self._aio: Any = None
        if not isinstance(options, str):
            raise TypeError("settings are a str or keywords, not " + type(options).__name__)
        words = [options] if options else []
        for key, value in settings.items():
            if any(character.isspace() for character in str(value)):
                raise ValueError(f"{key}={value}: the value of a setting has no blanks")
            words.append(f"{key}={value}")
        if any("\0" in word for word in words):
            raise ValueError("settings have no null character")
        out = ffi.new("struct glue **")
        _errors.check(lib.glue_open(out, " ".join(words).encode()))
        self._glue = ffi.gc(out[0], lib.glue_drop)
        self._ctx = out[0].ctx
        self._closed = False
        self._services: "weakref.WeakSet[Service]" = weakref.WeakSet()
        # Of all services: the collector forgets those that it collects with their context.
        self._handles: Set[Any] = set()
        _open.add(self)

    __reduce__ = _errors.no_copy

    def _get(self) -> Any:
        if self._closed:
            raise _errors.closed("context")
        return self._ctx

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._closed

    def register(self, service: Union[int, str, None] = None, *, takeover: bool = False) -> Service:
        """Becomes the holder of a service: an id from 1, a name, or None for a free id. With
        takeover=True a present holder loses it."""
        ctx = self._get()
        out = ffi.new("struct ripc_service **")
        flags = lib.RIPC_TAKEOVER if takeover else 0
        if isinstance(service, str):
            if "\0" in service:
                raise ValueError("a name has no null character")
            rc = lib.ripc_register_name(ctx, service.encode(), flags, out)
        else:
            number = lib.RIPC_ANY_ID if service is None else destination(service)
            rc = lib.ripc_service_register(ctx, number, flags, out)
        _errors.check(rc)
        self._handles.add(out[0])
        result = Service(self, out[0], service if isinstance(service, str) else None)
        self._services.add(result)
        if self.closed:  # meanwhile, by another thread
            result.close()
            raise _errors.closed("context")
        return result

    def alloc(self, size: int, dest: Optional[Destination] = None) -> memoryview:
        """Allocates registered memory, as a writable memoryview: items in it are sent without a
        copy, and large ones are read in place by receivers on the same host. dest: the service to
        which it will be sent, if that is known. The memory is freed with the last view."""
        self._get()
        size = whole(size, "a size is an int", "the size of a buffer")
        b = lib.glue_buffer_alloc(self._glue, size, destination(dest) if dest is not None else 0)
        if b == ffi.NULL:
            raise _errors.error(ffi.errno)
        b = ffi.gc(b, lib.glue_buffer_free)
        return view(b.base, size, b)

    def register_memory(self, data: Bytes) -> Registration:
        """Registers writable memory of the program, such as a numpy array: items in it are sent
        without a copy by an adapter, and windows and return buffers may lie in it. Memory may not
        be registered twice."""
        return Registration(self, data)

    def connect(self, dest: Destination, timeout: Optional[float] = 30.0) -> Dict[str, Any]:
        """Finds a service and connects to it ahead of the first message. Returns its route()."""
        route, dest = struct("struct ripc_route"), destination(dest)
        _errors.check(in_slices(milliseconds(timeout), lambda ms: lib.ripc_route_lookup(
            self._get(), dest, route, ms), (-errno.ETIMEDOUT, -errno.EHOSTUNREACH)))
        return members(route)

    def route(self, dest: Destination) -> Optional[Dict[str, Any]]:
        """The present route to a service: transport, address, reason, and so on. None: nothing is
        known of it."""
        route = struct("struct ripc_route")
        rc = lib.ripc_route_get(self._get(), destination(dest), route)
        return None if rc == -errno.ENOENT else members(route) if not _errors.check(rc) else None

    def services(self, timeout: float = 0.5) -> List[Dict[str, Any]]:
        """The services that are registered on the network: for tools and tests."""
        out = ffi.new("struct ripc_service_info **")
        n = lib.glue_service_list(self._get(), out, milliseconds(timeout))
        try:
            return [members(out[0][i]) for i in range(_errors.check(n))]
        finally:
            lib.glue_free(out[0])

    def limits(self, dest: Optional[Destination] = None) -> Optional[Dict[str, int]]:
        """The limits of messages to a service: short_max, long_max, items_max and
        return_buffers_max. None: it is not connected. Without dest: those that hold for all."""
        limits = struct("struct ripc_limits")
        rc = lib.ripc_route_limits(self._get(), 0 if dest is None else destination(dest), limits)
        return None if rc == -errno.ENOENT else members(limits) if not _errors.check(rc) else None

    def stats(self) -> Dict[str, int]:
        """The counters of the context."""
        stats = struct("struct ripc_stats")
        _errors.check(lib.ripc_context_stats(self._get(), stats))
        return members(stats)

    def peer_stats(self, dest: Destination) -> Optional[Dict[str, int]]:
        """The counters of the peer that holds a service. None: nothing is known of it."""
        stats = struct("struct ripc_stats")
        rc = lib.ripc_peer_stats(self._get(), destination(dest), stats)
        return None if rc == -errno.ENOENT else members(stats) if not _errors.check(rc) else None

    def group_stats(self, group: int, sender: Optional[bytes] = None) -> Optional[Dict[str, int]]:
        """The counters of a group; sender: of the messages of the context with this
        Message.instance alone. None: the context does not use the group, or nothing has come from
        the sender."""
        instance = ffi.NULL
        if sender is not None:
            memory = Memory(sender)
            if memory.size != 16:
                raise ValueError("an instance has 16 bytes")
            instance = memory.pointer
        stats = struct("struct ripc_group_stats")
        rc = lib.ripc_group_stats(self._get(), group_id(group), ffi.cast("uint8_t *", instance),
                                  stats)
        return None if rc == -errno.ENOENT else members(stats) if not _errors.check(rc) else None

    def transports(self) -> List[Tuple[str, bool, str]]:
        """The transports: name, whether it is open, and its address or why it is not."""
        return self._list(lib.ripc_transport_info)

    def resolvers(self) -> List[Tuple[str, bool, str]]:
        """The back ends of the resolver: name, whether it works, and its state or why it does
        not."""
        return self._list(lib.ripc_resolver_info)

    def _list(self, info: Any) -> List[Tuple[str, bool, str]]:
        ctx = self._get()
        name, detail = ffi.new("char **"), ffi.new("char[1024]")
        result = []
        while True:
            rc = info(ctx, len(result), name, detail, 1024)
            if rc < 0:
                return result
            result.append((text(name[0]), bool(rc), text(detail)))

    def close(self) -> None:
        """Closes the context and its services. Calls of other threads on them raise Closed. Does
        nothing if it is closed."""
        _open.discard(self)
        for service in list(self._services):
            service.close()
        for handle in list(self._handles):
            lib.ripc_service_unregister(handle)
        if self._aio is not None:
            self._aio.end()
        # The end of their services has ended these.
        for operation in list(self._running):
            operation._withdraw()
        self._running.clear()
        for registration in list(self._registrations):
            registration.close()
        self._closed = True
        # The collector calls glue_drop() before __del__() if both are in a cycle.
        if not gc.is_finalized(self._glue):
            lib.glue_close(self._glue)

    def __del__(self) -> None:
        # A message under way must not outlive the memory that it refers to.
        if self._running or self._registrations or self._aio is not None:
            self.close()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@atexit.register
def _close_all() -> None:
    """Sends what is queued. What the interpreter destroys later finds the contexts closed."""
    for context in list(_open):
        context.close()
    lib.glue_log(-1, 0)


def _after_fork() -> None:
    """The contexts of the parent do not work in the child."""
    for context in list(_open):
        # pylint: disable=protected-access
        context._glue.closed = 1
        context._closed = True
        for operation in context._running:
            operation._after_fork()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
