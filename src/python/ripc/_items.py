# SPDX-License-Identifier: LGPL-2.1-or-later
"""Items of messages, and memory under memoryviews."""
from functools import partial
from typing import Any, List, Sequence, Tuple, Union

from ._ripc import ffi

# Any object with the buffer protocol: bytes, bytearray, memoryview, array, numpy.ndarray.
Bytes = Any
Data = Union[Bytes, Sequence[Bytes]]


def item_list(data: Data) -> Tuple[Any, int, List[Any]]:
    """An array of struct iovec, its length, and the objects that keep the memory alive."""
    if not isinstance(data, (list, tuple)):
        data = (data,)
    items = ffi.new("struct iovec[]", len(data))
    kept: List[Any] = [items]
    for i, item in enumerate(data):
        if isinstance(item, str):
            raise TypeError("an item is an object with bytes, not str: encode it")
        memory = ffi.from_buffer(item)
        items[i].iov_base = memory
        items[i].iov_len = len(memory)
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
