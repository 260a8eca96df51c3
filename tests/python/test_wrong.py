# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arguments that make no sense: each has an exception of one kind, and a text that tells why."""
import array
import asyncio
import copy
import errno
import pickle

import ripc
from support import Skip, end, expect_error, pair

NOT_NUMBERS = (1.5, b"x", [], object())
NOT_BYTES = (None, "text", 5, 1.5, {}, object())


def wrong(kind, function, *arguments, text="", **keywords):
    """The call raises an exception of exactly this kind."""
    try:
        function(*arguments, **keywords)
    except Exception as e:
        assert type(e) is kind and str(e) and text in str(e), (function, arguments, repr(e))
        return
    raise AssertionError(f"{function} took {arguments} {keywords}")


def test_data():
    a, b = pair()
    for data in NOT_BYTES:
        for function in (a.send, a.start_send, a.call, a.start_call):
            wrong(TypeError, function, b.id, data, text="an object with bytes is required")
            wrong(TypeError, function, b.id, [b"x", data], text="an object with bytes is required")
        wrong(TypeError, a.send_group, 7, data)
        wrong(TypeError, a.context.register_memory, data)
        wrong(TypeError, b.add_window, data)
        wrong(TypeError, b.remove_window, data)
        if data is not None:
            wrong(TypeError, a.call, b.id, b"x", 1, into=data)
            wrong(TypeError, a.send, b.id, b"x", return_buffers=data)
    wrong(BufferError, a.send, b.id, memoryview(b"abcdef")[::2], text="contiguous")
    for function in (a.context.register_memory, b.add_window):
        wrong(BufferError, function, b"constant", text="this bytes is read-only")
        expect_error(ripc.Error, errno.EINVAL, function, bytearray())
    wrong(TypeError, b.add_window, [bytearray(10), bytearray(10)])
    for many in ([], [b"x"] * 65, [b"x"] * 100000):
        for function in (a.send, a.start_send, a.call, a.start_call):
            expect_error(ripc.Error, errno.EINVAL, function, b.id, many)
    twice = bytearray(100)
    expect_error(ripc.Error, errno.EBUSY, a.call, b.id, b"x", 1, into=[twice, twice])
    expect_error(ripc.Error, errno.EINVAL, a.call, b.id, b"x", 1, into=[bytearray(9)] * 17)
    twice.append(1)
    a.send(b.id, array.array("d", [1, 2]))
    assert len(b.receive(5)[0]) == 16
    expect_error(ripc.WouldBlock, errno.EAGAIN, b.receive, 0)
    end(a, b)


def test_arrays():
    try:
        import numpy
    except ImportError as e:
        raise Skip("numpy is not installed") from e
    a, b = pair()
    square = numpy.zeros((10, 10))
    for part in (square[:, ::2], square[:, 0], square[::-1], numpy.asfortranarray(square + 1)):
        wrong(BufferError, a.send, b.id, part, text="contiguous memory is required")
        wrong(BufferError, a.context.register_memory, part, text="contiguous")
    # Its bytes are addresses of this process.
    objects = numpy.array([object()])
    wrong(TypeError, a.send, b.id, objects, text="addresses")
    wrong(TypeError, a.send, b.id, memoryview(objects), text="addresses")
    fixed = numpy.frombuffer(b"12345678")
    wrong(BufferError, a.call, b.id, b"x", into=fixed, text="this ndarray is read-only")
    a.send(numpy.uint64(b.id), square[:5])
    assert len(b.receive(5)[0]) == 400
    end(a, b)


def test_numbers():
    a, b = pair()
    context = a.context
    uses = (lambda dest: a.send(dest, b"x"), lambda dest: a.send(dest, [b"x"]),
            lambda dest: a.start_send(dest, b"x"), lambda dest: a.call(dest, b"x"), a.watch,
            a.flush, a.unwatch, context.route, context.connect, context.peer_stats)
    for use in uses:
        for dest in NOT_NUMBERS + (None, b):
            wrong(TypeError, use, dest, text="its id or its name, not " + type(dest).__name__)
        for dest in (-1, 1 << 64, "", "x" * 256):
            wrong(ValueError, use, dest)
        wrong(ValueError, use, "nul\0", text="zero byte")
    for use in (a.join, a.leave, lambda group: a.send_group(group, b"x"), context.group_stats):
        for group in NOT_NUMBERS + ("x", None):
            wrong(TypeError, use, group, text="a group is an int")
        wrong(ValueError, use, -1)
    expect_error(ripc.Error, errno.EINVAL, a.join, 0)
    wrong(ValueError, context.group_stats, 7, b"short")
    for size in NOT_NUMBERS + (None, "5"):
        wrong(TypeError, context.alloc, size, text="a size is an int")
    for size in (-1, 1 << 64):
        wrong(ValueError, context.alloc, size)
    expect_error(ripc.Error, errno.EINVAL, context.alloc, 0)
    for size in (1 << 40, 1 << 62, (1 << 64) - 1):
        expect_error(ripc.Error, errno.ENOMEM, context.alloc, size)
    for id in NOT_NUMBERS:
        wrong(TypeError, context.register, id)
        wrong(TypeError, ripc.id, id)
    for id in (0, 1 << 63, ""):
        expect_error(ripc.Error, errno.EINVAL, context.register, id)
    end(a, b)


def test_timeouts():
    a, b = pair()
    uses = (b.receive, lambda t: a.send(b.id, b"x", t), lambda t: a.call(b.id, b"x", t),
            lambda t: a.start_call(b.id, b"x", t), lambda t: a.flush(b.id, t),
            lambda t: a.join(9, t), lambda t: a.context.connect(b.id, t),
            lambda t: asyncio.run(b.receive_async(t)),
            lambda t: asyncio.run(a.send_async(b.id, b"x", t)),
            lambda t: asyncio.run(a.call_async(b.id, b"x", t)))
    for use in uses:
        for timeout in (-1, -0.001, float("nan"), float("-inf")):
            wrong(ValueError, use, timeout, text="a timeout is None, 0 or positive")
        for timeout in ("5", b"5", [], object()):
            wrong(TypeError, use, timeout, text="a timeout is a number of seconds or None")
    for endless in (None, float("inf"), 1e300, 2**40):
        a.flush(b.id, endless)
        a.send(b.id, b"y", endless)
        assert bytes(b.receive(endless)) == b"y"
    end(a, b)


def test_copies():
    """The end of a copy would end the original."""
    a, b = pair()
    call = a.start_call(b.id, b"q")
    memory = a.context.register_memory(bytearray(5000))
    for original in (a, a.context, b.receive(5), call, a.start_send(b.id, b"x"), memory):
        for function in (copy.copy, copy.deepcopy, pickle.dumps):
            wrong(TypeError, function, original, text="can be neither copied nor pickled")
    assert a.id
    end(a, b)


def test_others():
    a, b = pair()
    a.send(b.id, b"x")
    m = b.receive(5)
    for i in ("x", 0.0, None):
        wrong(TypeError, m.__getitem__, i)
        wrong(TypeError, m.placement, i)
    wrong(IndexError, m.__getitem__, 1)
    wrong(IndexError, m.placement, 1)
    wrong(TypeError, m[0].__setitem__, 0, 1)
    expect_error(ripc.Error, errno.EINVAL, m.reply, b"no request")
    for handler in (None, 5):
        wrong(TypeError, b.serve, handler, text="a handler is a function")
        wrong(TypeError, lambda: asyncio.run(b.serve_async(handler)), text="a handler is a functi")
    wrong(TypeError, lambda: asyncio.run(b.reply_async(None, b"x")))
    for settings in (5, b"wait=poll", None):
        wrong(TypeError, ripc.Context, settings)
    wrong(ValueError, ripc.Context, "wait=poll\0junk")
    wrong(ValueError, ripc.Context, transports="shm, self", text="has no blanks")
    wrong(TypeError, ripc.log_to, 5)
    wrong(TypeError, ripc.log_to, "x", "info")
    wrong(TypeError, ripc.Service)
    call = a.start_call(b.id, b"q")
    request = b.receive(5)
    for error in (1 << 40, -1 << 40):
        wrong(ValueError, request.reply_error, error, text="is no error number")
    call.cancel()
    # Nothing is sent, and the memory is not registered any more.
    wrong(ValueError, lambda: a.send(b.id, b"x", -1, return_buffers=a.context.alloc(10)))
    memory = bytearray(5000)
    for start in (lambda: a.start_call(-1, b"q", into=memory),
                  lambda: asyncio.run(a.call_async(-1, b"q", into=memory)),
                  lambda: asyncio.run(a.call_async(b.id, b"q", -1, into=memory))):
        wrong(ValueError, start)
        a.context.register_memory(memory).close()
    expect_error(ripc.WouldBlock, errno.EAGAIN, b.receive, 0)
    # A sentence of its own, not the one of an error before.
    expect_error(ripc.Error, errno.EINVAL, a.send, b.id, [])
    b.context.close()
    for function in (b.receive, lambda: asyncio.run(b.receive_async())):
        assert "closed" in expect_error(ripc.Closed, errno.ESHUTDOWN, function).strerror
    end(a)
