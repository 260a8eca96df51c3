# SPDX-License-Identifier: LGPL-2.1-or-later
"""Items of messages, and memory under memoryviews."""
from functools import partial
from typing import Any, Dict, List, Sequence, Tuple, Union

from ._ripc import ffi

# Any object with the buffer protocol: bytes, bytearray, memoryview, array, numpy.ndarray.
Bytes = Any
Data = Union[Bytes, Sequence[Bytes]]


class Items:
    """A message: item_list() takes its items."""

    __slots__ = ()


class Memory:
    """The memory under an object with the buffer protocol, which it keeps alive."""

    __slots__ = ("pointer", "owner", "size")

    def __init__(self, data: Bytes, writable: bool = False) -> None:
        self.owner = self.pointer = memory = _buffer_of(data, writable)
        self.size = len(memory)
        if isinstance(data, memoryview):
            # The garbage collector crashes if it finds a memoryview whose buffer is in use.
            self.owner = memoryview(data)
            self.pointer = ffi.cast("char *", memory)
            ffi.release(memory)

    def __len__(self) -> int:
        return self.size


def _buffer_of(data: Bytes, writable: bool) -> Any:
    if isinstance(data, str):
        raise TypeError("an object with bytes is required, not str: encode it")
    dtype = getattr(data.obj if isinstance(data, memoryview) else data, "dtype", None)
    if getattr(dtype, "hasobject", False):
        raise TypeError("an array of objects has their addresses, not their bytes")
    try:
        return ffi.from_buffer(data, require_writable=writable)
    except TypeError:
        raise TypeError("an object with bytes is required, not "
                        f"{type(data).__name__}") from None
    except (BufferError, ValueError) as e:
        if writable and memoryview(data).readonly:
            raise BufferError(f"writable memory is required: this {type(data).__name__} is "
                              "read-only") from None
        raise BufferError(f"contiguous memory is required: {e}; copy it, as "
                          "numpy.ascontiguousarray() does") from None


def item_list(data: Data) -> Tuple[Any, int, List[Any]]:
    """An array of struct iovec, its length, and the objects that keep the memory alive."""
    if isinstance(data, Items):
        data = data[:]
    elif not isinstance(data, (list, tuple)):
        data = (data,)
    items = ffi.new("struct iovec[]", len(data))
    kept: List[Any] = [items]
    for i, item in enumerate(data):
        memory = Memory(item)
        items[i].iov_base = memory.pointer
        items[i].iov_len = memory.size
        kept.append(memory)
    return items, len(data), kept


def _keep(owner: Any, _: Any) -> None:
    """Does nothing. A reference to it with an owner keeps the owner."""


def view(base: Any, length: int, owner: Any) -> memoryview:
    """Memory of the library as a memoryview, which keeps its owner."""
    if not length:
        return memoryview(b"")
    pointer = ffi.gc(ffi.cast("char *", base), partial(_keep, owner))
    return memoryview(ffi.buffer(pointer, length))


def text(chars: Any) -> str:
    return ffi.string(chars).decode(errors="replace")


def struct(name: str) -> Any:
    result = ffi.new(name + " *")
    result.size = ffi.sizeof(name)
    return result


def members(record: Any) -> Dict[str, Any]:
    """The members of a struct of the library but its size."""
    kind = ffi.typeof(record)
    result = {}
    for name, field in (kind.item if kind.kind == "pointer" else kind).fields:
        value = getattr(record, name)
        if field.type.kind == "array":
            value = text(value) if field.type.item.cname == "char" else bytes(ffi.buffer(value))
        if name != "size":
            result[name] = value
    return result
