# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory of the program into which the library receives."""
import errno
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

from . import _errors
from ._items import Bytes, Memory
from ._ripc import ffi, lib

if TYPE_CHECKING:
    from ._context import Context


class Registration:
    """Memory of the program that the library may use without a copy: Context.register_memory().
    It ends with close(), with a ``with`` block, or with its context. The memory cannot be resized
    meanwhile."""

    __slots__ = ("_context", "_memory")

    def __init__(self, context: "Context", data: Bytes) -> None:
        self._context = context
        self._memory: Optional[Memory] = Memory(data, writable=True)
        _errors.check(lib.ripc_buf_register(context._get(), self._memory.pointer,
                                            self._memory.size))
        context._registrations.add(self)

    __reduce__ = _errors.no_copy

    def close(self) -> None:
        """Ends the registration. Raises Error with EBUSY while the memory is in use: by a message
        under way, as a window, or as a return buffer. Does nothing if it has ended."""
        context = self._context
        try:
            context._registrations.remove(self)
        except KeyError:
            return
        if not context.closed and self._memory:
            try:
                _errors.check(lib.ripc_buf_unregister(context._ctx, self._memory.pointer))
            except _errors.Closed:
                pass
            except _errors.Error:
                context._registrations.add(self)
                raise
        self._memory = None

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Targets:
    """Memory for items to come. What is neither registered nor allocated is registered until
    release()."""

    __slots__ = ("context", "memory", "iovec", "registered")

    def __init__(self, context: "Context", buffers: Union[Bytes, Sequence[Bytes]],
                 temporary: bool = False) -> None:
        if not isinstance(buffers, (list, tuple)):
            buffers = (buffers,)
        self.context = context
        self.memory = [Memory(buffer, writable=True) for buffer in buffers]
        self.iovec = ffi.new("struct iovec[]", len(buffers))
        self.registered: List[Any] = []
        for iovec, memory in zip(self.iovec, self.memory):
            iovec.iov_base = memory.pointer
            iovec.iov_len = memory.size
            if temporary:
                rc = lib.ripc_buf_register(context._get(), memory.pointer, memory.size)
                if not rc:
                    self.registered.append(memory.pointer)
                elif rc != -errno.EEXIST:
                    error = _errors.error(rc)
                    self.release()
                    raise error

    def __len__(self) -> int:
        return len(self.memory)

    def release(self) -> None:
        """Ends the registrations: no peer uses the memory any more."""
        while self.registered:
            lib.ripc_buf_unregister(self.context._ctx, self.registered.pop())
