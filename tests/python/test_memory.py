# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory: leaks, large messages in place, and views whose sender or context is gone."""
import errno
import gc
import os
import signal
import tracemalloc

import ripc
from support import OPTIONS, Skip, end, expect_error, pair, python

LARGE = 64 << 20


def rss_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def anonymous_kib():
    """The memory of this process alone: a copy would be there, and memory of a peer is not."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


def exchange(a, b, count):
    for i in range(count):
        a.send(b.id, b"x" * 64)
        m = b.receive(5)
        assert m[0][0] == 120
        if not i % 100:
            a.send(b.id, a.context.alloc(100000))
            bytes(b.receive(5))
            expect_error(ripc.WouldBlock, errno.EAGAIN, b.receive, 0)
            call = a.start_call(b.id, b"q", into=bytearray(1000))
            b.receive(5).reply(bytes(1000))
            assert call.wait(5).placement() is ripc.Placement.RETURN_BUFFER
            call = a.start_call(b.id, b"q", into=bytearray(1000))
            b.receive(5)
            call.cancel()


def test_leaks():
    """The process does not grow. LONG: 10^6 messages."""
    n = 1000000 if os.environ.get("LONG") else 10000
    a, b = pair()
    # Allocators reach their size in the first rounds; a leak adds to each.
    grown = []
    while not grown or grown[-1] > 1024:
        assert len(grown) < 6, f"{grown} KiB more after {n} messages each"
        before = rss_kib()
        exchange(a, b, n)
        gc.collect()
        grown.append(rss_kib() - before)
    end(a, b)


def test_objects():
    """No object of Python is left over, however small."""
    n = 100000 if os.environ.get("LONG") else 2000
    a, b = pair()
    exchange(a, b, 200)
    gc.collect()
    tracemalloc.start()
    exchange(a, b, 200)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    exchange(a, b, n)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < n, f"{grown} bytes more after {n} messages"
    end(a, b)


def sender(dest, count):
    """A process that sends images and waits for an answer to each."""
    return python(f"""
a = ripc.Context(options).register()
for i in range({count}):
    image = a.context.alloc({LARGE}, {dest})
    image[:1] = image[-1:] = bytes([i + 1])
    a.send({dest}, image)
    a.receive(20)
""")


def test_in_place():
    """64 MiB of another process are received without a copy."""
    b = ripc.Context(OPTIONS).register()
    process = sender(b.id, 6)
    before, in_place = None, 0
    for i in range(6):
        m = b.receive(30)
        assert len(m[0]) == LARGE and m[0][0] == m[0][-1] == i + 1
        in_place += m.in_place
        if m.in_place:
            if before is None:
                before = anonymous_kib()
            # All pages are read; none of them becomes this process's own.
            assert sum(m[0][::4096]) == i + 1
            more = anonymous_kib() - before
            assert more < LARGE // 1024 // 4, f"{more} KiB more"
        source = m.source
        del m
        gc.collect()
        b.send(source, b"next")
    assert process.wait(30) == 0
    assert in_place >= 3, f"{in_place} of 6 in place"
    end(b)


def test_into():
    """64 MiB of an answer land in memory of the program."""
    try:
        import numpy
    except ImportError as e:
        raise Skip("numpy is not installed") from e
    b = ripc.Context(OPTIONS).register()
    process = python(f"""
a = ripc.Context(options).register()
a.send({b.id}, b"up")
image = bytes([7]) * {LARGE}
try:
    for m in a:
        m.reply(image)
except ripc.Error:
    pass
""")
    server = b.receive(30).source
    image = numpy.zeros(LARGE, numpy.uint8)
    b.call(server, b"warm", 30, into=image)
    before = anonymous_kib()
    m = b.call(server, b"image", 30, into=image)
    assert m.placement() is ripc.Placement.RETURN_BUFFER and image.min() == image.max() == 7
    more = anonymous_kib() - before
    assert more < LARGE // 1024 // 4, f"{more} KiB more"
    process.kill()
    process.wait()
    end(b)


def test_views_of_the_dead():
    """Views of memory of a sender that was killed, of a closed context, and of both."""
    b = ripc.Context(OPTIONS).register()
    process = sender(b.id, 6)
    for i in range(4):
        m = b.receive(30)
        if i < 3:
            b.send(m.source, b"next")
    b.watch(m.source)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert b.receive(20).event == ripc.Event.DIED
    view = m[0]
    assert len(view) == LARGE and view[0] == view[-1] == 4
    b.context.close()
    assert view[0] == view[-1] == 4
    expect_error(ripc.Closed, errno.ESHUTDOWN, lambda: m[0])
    del m
    gc.collect()
    assert sum(view[::4096]) == 4
