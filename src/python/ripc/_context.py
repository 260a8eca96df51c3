# SPDX-License-Identifier: LGPL-2.1-or-later
"""Contexts."""
import atexit
import os
import weakref
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _errors
from ._errors import Destination, destination, milliseconds
from ._items import view
from ._ripc import ffi, lib
from ._service import Service

_open: "weakref.WeakSet[Context]" = weakref.WeakSet()


class Context:
    """One instance of the library: its transports, its resolver and its thread.

    Settings, as in ripc(7), are a string or keywords: ``Context("wait=poll")``,
    ``Context(transports="shm,self", log="info")``. Most programs need none.

    close(), or the end of a ``with`` block, ends the services of the context. Views of messages
    and buffers stay valid; their memory, and the context's own, is freed with the last of them.
    """

    def __init__(self, options: str = "", **settings: Any) -> None:
        words = [options] if options else []
        words += [f"{key}={value}" for key, value in settings.items()]
        out = ffi.new("struct glue **")
        _errors.check(lib.glue_open(out, " ".join(words).encode()))
        self._glue = ffi.gc(out[0], lib.glue_drop)
        self._services: "weakref.WeakSet[Service]" = weakref.WeakSet()
        self._aio: Any = None
        _open.add(self)

    def _get(self) -> Any:
        if self._glue.closed:
            raise _errors.closed("context")
        return self._glue.ctx

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._glue.closed)

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
            number = lib.RIPC_ANY_ID if service is None else service
            rc = lib.ripc_service_register(ctx, number, flags, out)
        _errors.check(rc)
        result = Service(self, out[0])
        self._services.add(result)
        return result

    def alloc(self, size: int, dest: Optional[Destination] = None) -> memoryview:
        """Allocates registered memory, as a writable memoryview: items in it are sent without a
        copy, and large ones are read in place by receivers on the same host. dest: the service to
        which it will be sent, if that is known. The memory is freed with the last view."""
        self._get()
        b = lib.glue_buffer_alloc(self._glue, size, destination(dest) if dest is not None else 0)
        if b == ffi.NULL:
            raise _errors.error(ffi.errno)
        b = ffi.gc(b, lib.glue_buffer_free)
        return view(b.base, size, b)

    def connect(self, dest: Destination, timeout: Optional[float] = 30.0) -> Dict[str, Any]:
        """Finds a service and connects to it ahead of the first message. Returns its route()."""
        route = _struct("struct ripc_route")
        _errors.check(lib.ripc_route_lookup(self._get(), destination(dest), route,
                                            milliseconds(timeout)))
        return _members(route)

    def route(self, dest: Destination) -> Optional[Dict[str, Any]]:
        """The present route to a service: transport, address, reason, and so on. None: nothing is
        known of it."""
        route = _struct("struct ripc_route")
        rc = lib.ripc_route_get(self._get(), destination(dest), route)
        return None if rc == -2 else _members(route) if not _errors.check(rc) else None

    def services(self, timeout: float = 0.5) -> List[Dict[str, Any]]:
        """The services that are registered on the network: for tools and tests."""
        out = ffi.new("struct ripc_service_info **")
        n = lib.glue_service_list(self._get(), out, milliseconds(timeout))
        try:
            return [_members(out[0][i]) for i in range(_errors.check(n))]
        finally:
            lib.glue_free(out[0])

    def stats(self) -> Dict[str, int]:
        """The counters of the context."""
        stats = _struct("struct ripc_stats")
        _errors.check(lib.ripc_context_stats(self._get(), stats))
        return _members(stats)

    def transports(self) -> List[Tuple[str, bool, str]]:
        """The transports: name, whether it is open, and its address or why it is not."""
        ctx = self._get()
        name, text = ffi.new("char **"), ffi.new("char[1024]")
        result = []
        while True:
            rc = lib.ripc_transport_info(ctx, len(result), name, text, 1024)
            if rc < 0:
                return result
            result.append((_text(name[0]), bool(rc), _text(text)))

    def close(self) -> None:
        """Closes the context and its services. Calls of other threads on them raise Closed. Does
        nothing if it is closed."""
        _open.discard(self)
        for service in list(self._services):
            service.close()
        if self._aio is not None:
            self._aio.end()
        lib.glue_close(self._glue)

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _text(chars: Any) -> str:
    return ffi.string(chars).decode(errors="replace")


def _struct(name: str) -> Any:
    result = ffi.new(name + " *")
    result.size = ffi.sizeof(name)
    return result


def _members(struct: Any) -> Dict[str, Any]:
    """The members of a struct of the library but its size."""
    kind = ffi.typeof(struct)
    result = {}
    for name, field in (kind.item if kind.kind == "pointer" else kind).fields:
        value = getattr(struct, name)
        if field.type.kind == "array":
            value = _text(value) if field.type.item.cname == "char" else bytes(ffi.buffer(value))
        if name != "size":
            result[name] = value
    return result


@atexit.register
def _close_all() -> None:
    """Sends what is queued. What the interpreter destroys later finds the contexts closed."""
    for context in list(_open):
        context.close()
    lib.glue_log(-1, 0)


def _after_fork() -> None:
    """The contexts of the parent do not work in the child."""
    for context in list(_open):
        context._glue.closed = 1  # pylint: disable=protected-access
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
