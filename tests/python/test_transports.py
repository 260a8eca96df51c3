# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cases of tests/conformance that concern a binding, over several transports: borders of items,
sizes, order, windows, return buffers, requests, calls with their ends, groups, limits."""
import errno
import functools
import gc
import os
import threading
import time
import weakref

import ripc
from support import expect_error

TRANSPORTS = ("shm", "iwarp/soft", "self")


def over_all(test):
    """Runs a test between two contexts over each transport, or within one over self."""
    @functools.wraps(test)
    def run():
        for transport in TRANSPORTS:
            try:
                a = ripc.Context(transports=f"{transport},self", interfaces="lo").register()
                b = a.context.register() if transport == "self" else ripc.Context(
                    transports=f"{transport},self", interfaces="lo").register()
                contexts = {a.context, b.context}
                test(a, b)
                for context in contexts:
                    context.close()
            except Exception as e:
                raise AssertionError(f"over {transport}: {e!r}") from e
    del run.__wrapped__
    return run


@over_all
def test_sizes_and_borders(a, b):
    short_max = (a.context.connect(b.id, 10), a.context.limits(b.id))[1]["short_max"]
    for size in (0, 1, 63, 64, 511, 512, short_max, short_max + 1, 65536, 65537, 1000000):
        data = os.urandom(size)
        thread = threading.Thread(target=a.send, args=(b.id, [b"", data, data[:7]]))
        thread.start()
        m = b.receive(10)
        thread.join(10)
        assert [bytes(item) for item in m] == [b"", data, data[:7]], size
    items = [bytes([i]) * i for i in range(a.context.limits()["items_max"])]
    a.send(b.id, items)
    assert [bytes(item) for item in b.receive(10)] == items
    expect_error(ripc.Error, errno.EINVAL, a.send, b.id, items + [b""])


@over_all
def test_order(a, b):
    for i in range(500):
        a.send(b.id, i.to_bytes(4, "little"))
        if i % 50 == 49:
            numbers = [int.from_bytes(b.receive(5)[0], "little") for _ in range(50)]
            assert numbers == list(range(i - 49, i + 1))
    requests = [a.start_send(b.id, [bytes([i]) * 100000]) for i in range(20)]
    assert [b.receive(10)[0][0] for _ in range(20)] == list(range(20))
    for request in requests:
        request.wait(10)
        assert request.done and not request.cancel()


@over_all
def test_windows(a, b):
    small, large = bytearray(1000), b.context.alloc(300000)
    with b.context.register_memory(small) as registration:
        b.add_window(small)
        b.add_window(large)
        expect_error(ripc.Error, errno.EBUSY, registration.close)
        expect_error(ripc.Error, errno.EBUSY, b.add_window, large)
        a.start_send(b.id, [b"x" * 200000, b"y" * 900])
        m = b.receive(10)
        assert m.placement(0) is m.placement(1) is ripc.Placement.WINDOW
        assert large[:200000] == b"x" * 200000 and small[:900] == b"y" * 900
        assert large[200000] == 0 and m[1] == small[:900]
        b.add_window(small)
        b.remove_window(small)
        expect_error(ripc.Error, errno.EINVAL, b.remove_window, small)
        a.start_send(b.id, b"z" * 900)
        assert b.receive(10).placement() is not ripc.Placement.WINDOW and small[0] == ord("y")
    registration.close()
    expect_error(ripc.Error, errno.EINVAL, b.add_window, small)
    # Memory that nobody refers to but the window.
    b.add_window(b.context.alloc(100000))
    a.start_send(b.id, b"w" * 100000)
    view = b.receive(10)[0]
    assert view == b"w" * 100000


@over_all
def test_return_buffers(a, b):
    memory = a.context.alloc(200000)
    a.send(b.id, b"request", 10, return_buffers=memory)
    m = b.receive(10)
    assert m.return_buffers == 1
    b.start_send(m.source, b"r" * 150000).wait(10)
    m = a.receive(10)
    assert m.placement() is ripc.Placement.RETURN_BUFFER and memory[:150000] == b"r" * 150000
    expect_error(ripc.Error, errno.EINVAL, a.send, b.id, b"x", 10, return_buffers=bytearray(5000))
    for wrong in (b"read-only", 5):
        try:
            a.send(b.id, b"x", return_buffers=wrong)
        except (TypeError, BufferError, ValueError):
            continue
        raise AssertionError(repr(wrong))


@over_all
def test_answer_into(a, b):
    def serve():
        for m in b:
            if bytes(m) == b"drop":
                m.release()
                continue
            if bytes(m) == b"late":
                assert m.deadline and not m.cancelled
                until = time.monotonic() + 10
                while not m.cancelled and time.monotonic() < until:
                    time.sleep(0.001)
                expect_error(ripc.Error, errno.ECANCELED, m.reply, b"late")
                continue
            m.reply([b"a" * 100, b"b" * 200000])
            expect_error(ripc.Error, errno.EALREADY, m.reply, b"again")

    thread = threading.Thread(target=serve)
    thread.start()
    own, allocated = bytearray(100), a.context.alloc(200000)
    for _ in range(3):
        own[:], allocated[:5] = bytes(100), bytes(5)
        m = a.call(b.id, b"q", 10, into=[own, allocated])
        assert own == b"a" * 100 and allocated == b"b" * 200000
        assert m[0] == own and m.placement(0) is m.placement(1) is ripc.Placement.RETURN_BUFFER
    m = None
    own.append(1)
    call = a.start_call(b.id, b"q", 10, into=bytearray(200000))
    m = call.wait(10)
    assert call.done and len(m[1]) == 200000 and call.wait(0) is m
    # The memory of the answer lives as long as a view of it.
    view, m, call = m[1], None, None
    assert view == b"b" * 200000
    expect_error(ripc.Refused, errno.ECANCELED, a.call, b.id, b"drop", 5, into=own)
    call = a.start_call(b.id, b"late", 30)
    expect_error(ripc.WouldBlock, errno.EINPROGRESS, call.wait, 0.05)
    assert not call.done and call.cancel() and call.done
    expect_error(ripc.Error, errno.ETIME, call.wait)
    expect_error(ripc.Timeout, errno.ETIME, a.call, b.id, b"late", 0.4, into=own)
    b.close()
    thread.join(20)
    assert not thread.is_alive()


@over_all
def test_requests(a, b):
    nobody = a.start_send(4711, bytes(1000))
    expect_error(ripc.WouldBlock, errno.EINPROGRESS, nobody.wait, 0.02)
    assert not nobody.done and nobody.cancel() and nobody.done and not nobody.cancel()
    expect_error(ripc.Error, errno.ECANCELED, nobody.wait)
    kept = [a.start_send(4711, bytes(1000)), a.start_call(4711, b"x", 60)]
    dropped = bytearray(100000)
    a.start_send(b.id, dropped)
    assert len(b.receive(10)[0]) == 100000
    a.close()
    for operation in kept:
        try:
            operation.wait(10)
        except ripc.Error as e:
            assert e.errno in (errno.ECANCELED, errno.ESHUTDOWN, errno.EHOSTUNREACH), e.errno
        else:
            raise AssertionError("no error")
    a.context.close()
    dropped.append(1)


@over_all
def test_counters(a, b):
    a.send(b.id, b"12345", reliable=True)
    a.flush(b.id, 10)
    assert bytes(b.receive(5)) == b"12345"
    assert a.stats()["short_sent"] == 1 and b.stats()["bytes_received"] == 5
    assert a.context.stats()["short_sent"] >= 1
    assert a.context.peer_stats(4711) is None and a.context.limits(4711) is None
    assert a.context.limits(b.id)["short_max"] >= 512 and a.context.limits()["items_max"] == 64
    assert [name for name, works, _ in a.context.resolvers() if works]
    assert a.context.group_stats(99) is None
    a.join(99)
    b.join(99)
    b.send_group(99, b"all")
    m = a.receive(5)
    assert m.group == 99 and a.context.group_stats(99)["members"] >= 1
    if a.context is not b.context:
        assert a.context.group_stats(99, m.instance)["received"] == 1
    assert a.context.group_stats(99, bytes(16)) is None


@over_all
def test_takeover(a, b):
    held = a.context.register(4712)
    b.send(4712, b"first", 5)
    assert bytes(held.receive(5)) == b"first"
    if a.context is b.context:
        return
    taken = b.context.register(4712, takeover=True)
    expect_error(ripc.Closed, errno.ESHUTDOWN, held.receive, 10)
    a.send(4712, b"second", 5)
    assert bytes(taken.receive(5)) == b"second"


def test_dropped():
    """Contexts with messages, calls, windows and registrations that nobody refers to any more."""
    for transport in ("shm", "iwarp/soft"):
        ends = [ripc.Context(transports=f"{transport},self", interfaces="lo") for _ in range(2)]
        alive = [weakref.ref(context) for context in ends]
        drop(*(context.register() for context in ends))
        ends.clear()
        gc.collect()
        assert not any(context() for context in alive)


def drop(a, b):
    for wrong in ("text", 5, None):
        for function in (a.start_send, a.start_call, b.add_window):
            try:
                function(*([wrong] if function == b.add_window else [b.id, wrong]))
            except TypeError:
                continue
            raise AssertionError(repr(wrong))
    a.start_send(4711, bytearray(100000))
    a.start_send(b.id, bytearray(100000))
    a.start_call(b.id, b"never answered", into=bytearray(1000))
    b.add_window(b.context.alloc(5000))
    memory = bytearray(5000)
    b.context.register_memory(memory)
    b.add_window(memory)
    a.start_send(b.id, bytearray(1000000), return_buffers=a.context.alloc(3000))
