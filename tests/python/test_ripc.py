# SPDX-License-Identifier: LGPL-2.1-or-later
"""The package ripc: messages, calls, groups, watches, asyncio, and what goes wrong."""
import asyncio
import errno
import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import threading
import time
import traceback

import ripc
from support import OPTIONS, Skip, end, expect_error, expect_error_type, pair, python


def test_short():
    a, b = pair()
    a.send(b.id, b"hello")
    m = b.receive(5)
    assert bytes(m) == b"hello" and m[0] == b"hello" and len(m) == 1
    assert (m.source, m.dest, m.is_long, m.is_request, m.event) == (a.id, b.id, False, False, 0)
    assert len(m.instance) == 16 and m.deadline is None
    a.send(b.id, [b"one", bytearray(b"two"), b"", memoryview(b"four")])
    m = b.receive(5)
    assert [bytes(item) for item in m] == [b"one", b"two", b"", b"four"]
    assert bytes(m) == b"onetwofour" and m[-1] == b"four" and m[0].readonly
    b.send(a.id, m)
    assert [bytes(item) for item in a.receive(5)] == [b"one", b"two", b"", b"four"]
    a.start_send(b.id, bytes(300000)).wait(5)
    b.start_send(a.id, b.receive(5)).wait(5)
    assert bytes(a.receive(5)) == bytes(300000)
    try:
        m[4]
    except IndexError:
        pass
    else:
        raise AssertionError("item 4 of 4")
    for wrong in ("text", 5, None, [b"x", "y"]):
        try:
            a.send(b.id, wrong)
        except TypeError:
            continue
        raise AssertionError(f"{wrong!r} was sent")
    expect_error(ripc.Error, errno.EINVAL, a.send, 0, b"nobody")
    expect_error(ripc.Error, errno.EINVAL, a.send, b.id, [])
    expect_error(ripc.Unreachable, errno.EHOSTUNREACH, a.send, 4711, b"nobody", timeout=0.3)
    expect_error(ripc.Timeout, errno.ETIMEDOUT, b.receive, 0.02)
    late = expect_error(ripc.Timeout, errno.ETIMEDOUT, b.receive, 0.25)
    assert "in 0.25 s" in late.strerror
    expect_error(ripc.WouldBlock, errno.EAGAIN, b.receive, 0)
    for i in range(100):
        a.send(b.id, b"%d" % i, reliable=True)
    a.flush(b.id, 5)
    assert [int(bytes(b.receive(5))) for _ in range(100)] == list(range(100))
    end(a, b)


def test_long():
    a, b = pair()
    data = os.urandom(3 << 20)
    thread = threading.Thread(target=a.send, args=(b.id, [data, b"end"]))
    thread.start()
    m = b.receive(10)
    thread.join()
    assert m.is_long and m[0] == data and m[1] == b"end"
    buffer = a.context.alloc(1 << 20, b.id)
    for i in range(20):
        buffer[:4] = i.to_bytes(4, "little")
        a.send(b.id, buffer)
        m = b.receive(5)
        assert int.from_bytes(m[0][:4], "little") == i and len(m[0]) == 1 << 20
    expect_error(ripc.Timeout, errno.ETIMEDOUT, a.send, 4711, data, timeout=0.3)
    end(a, b)


def test_numpy():
    try:
        import numpy
    except ImportError as e:
        raise Skip("numpy is not installed") from e
    a, b = pair()
    image = numpy.frombuffer(a.context.alloc(64 << 20, b.id), dtype=numpy.float32)
    image[:] = 2
    for _ in range(3):
        a.send(b.id, image)
        m = b.receive(20)
        received = numpy.frombuffer(m[0], dtype=numpy.float32)
        assert received.shape == image.shape and received[-1] == 2
        assert not received.flags.owndata and not received.flags.writeable
        del m, received
    end(a, b)


def test_calls():
    a, b = pair()

    def handler(m):
        if bytes(m) == b"denied":
            raise PermissionError(errno.EACCES, "not for you")
        if bytes(m) == b"wrong":
            return 1 // 0
        return [b"answer to ", m[0]] if bytes(m) != b"big" else bytes(1 << 20)

    thread = threading.Thread(target=b.serve, args=(handler,))
    thread.start()
    assert bytes(a.call(b.id, b"q", 5)) == b"answer to q"
    assert len(a.call(b.id, b"big", 5)[0]) == 1 << 20
    expect_error(ripc.Refused, errno.EACCES, a.call, b.id, b"denied", 5)
    expect_error(ripc.Refused, errno.EREMOTEIO, a.call, b.id, b"wrong", 5)
    assert bytes(a.call(b.id, b"again", 5)) == b"answer to again"
    b.close()
    thread.join(10)
    assert not thread.is_alive()
    c = b.context.register()
    expect_error(ripc.Timeout, errno.ETIMEDOUT, a.call, c.id, b"x", 0.2)
    end(a, b)


def test_late_answer():
    """The caller does not wait any more: the handler has not failed, and nothing is logged."""
    log = []
    logger = logging.getLogger("ripc")
    handler = logging.Handler()
    handler.emit = log.append
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.ERROR)

    def late(m):
        while not m.cancelled:
            time.sleep(0.001)
        return b"late"

    async def late_async(m):
        while not m.cancelled:
            await asyncio.sleep(0.001)
        return bytes(100000)

    async def serve_async(b):
        await b.serve_async(late_async)

    for serve in (lambda: b.serve(late), lambda: asyncio.run(serve_async(b))):
        a, b = pair()
        thread = threading.Thread(target=serve)
        thread.start()
        for _ in range(3):
            expect_error_type(ripc.Timeout, a.call, b.id, b"q", 0.1)
        end(a, b)
        thread.join(10)
        assert not thread.is_alive()
    logger.setLevel(level)
    logger.removeHandler(handler)
    assert not log, [record.getMessage() for record in log]


def test_names_groups_watch():
    a, b = pair()
    named = b.context.register("python/test")
    assert named.id == ripc.id("python/test") > 1 << 62
    assert named.name == "python/test" and a.name is None and "python/test" in repr(named)
    late = expect_error(ripc.Timeout, errno.ETIMEDOUT, named.receive, 0.15)
    assert f'service {named.id} ("python/test") in' in late.strerror
    late = expect_error(ripc.Unreachable, errno.EHOSTUNREACH, a.send, "python/x", b"", timeout=0.1)
    assert '("python/x")' in late.strerror
    a.send("python/test", b"by name")
    assert bytes(named.receive(5)) == b"by name"
    assert a.context.connect("python/test")["name"] == "python/test"
    expect_error(ripc.Error, errno.EADDRINUSE, a.context.register, "python/test")
    a.join(77)
    b.join(77)
    a.send_group(77, b"all")
    for s in (a, b):
        m = s.receive(5)
        assert bytes(m) == b"all" and m.group == 77
    b.leave(77)
    a.watch("python/test")
    named.close()
    m = a.receive(10)
    assert m.event == ripc.Event.MOVED and m.source == ripc.id("python/test") and bytes(m)
    for wrong in ("", "x" * 256, "nul\0"):
        try:
            ripc.id(wrong)
        except ValueError:
            continue
        raise AssertionError(repr(wrong))
    end(a, b)


def test_kill():
    a = ripc.Context(OPTIONS).register()
    peer = python(f"s = ripc.Context(options).register()\ns.send({a.id}, b'up')\n"
                  "kept = s.receive()\ns.receive()")
    dest = a.receive(20).source
    a.watch(dest)
    threading.Timer(0.1, os.kill, (peer.pid, signal.SIGKILL)).start()
    expect_error(ripc.PeerLost, errno.EPIPE, a.call, dest, b"never answered", 20)
    assert a.receive(20).event == ripc.Event.DIED
    peer.wait()
    end(a)


def test_after_close():
    a, b = pair()
    a.send(b.id, b"kept")
    a.send(b.id, bytes(1 << 20), timeout=5)
    short, long = b.receive(5), b.receive(5)
    view = long[0]
    b.context.close()
    for m in (short, long):
        for use in (lambda m=m: m[0], lambda m=m: bytes(m), lambda m=m: m.source, m.__len__):
            expect_error(ripc.Closed, errno.ESHUTDOWN, use)
    assert not any(view)
    repr(short)
    expect_error(ripc.Closed, errno.ESHUTDOWN, b.receive, 0)
    expect_error(ripc.Closed, errno.ESHUTDOWN, b.context.register)
    expect_error(ripc.Closed, errno.ESHUTDOWN, b.context.alloc, 4096)
    b.context.close()
    b.close()
    with a.context, a:
        pass
    assert a.context.closed
    expect_error(ripc.Error, errno.EINVAL, ripc.Context, nonsense=1)


def test_garbage():
    """Cycles of everything, collected in any order."""
    class Node:
        def __del__(self):
            assert self.view[0] == 120

    for _ in range(5):
        a, b = pair()
        a.send(b.id, b"x" * 1000)
        node = Node()
        node.all = [a, b, a.context, b.receive(5), a.context.alloc(100), node]
        node.view = node.all[3][0]
        del a, b, node
        gc.collect()


def test_close_during_receive():
    a, b = pair()
    errors = []

    def receive():
        try:
            b.receive()
        except ripc.Closed as e:
            errors.append(e.errno)

    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    b.context.close()
    for thread in threads:
        thread.join(10)
    assert errors == [errno.ESHUTDOWN] * 4
    end(a)


def test_threads():
    """Threads share two services: each sends, calls and receives."""
    a, b = pair()
    received, answers, errors = [], [], []

    def server():
        for m in b:
            if m.is_request:
                m.reply([b"to ", m[0]])
            else:
                received.append(bytes(m))

    def client(number):
        try:
            for i in range(100):
                text = b"%d.%d" % (number, i)
                a.send(b.id, text, reliable=True)
                answers.append(bytes(a.call(b.id, text, 20)) == b"to " + text)
        except Exception as e:  # pylint: disable=broad-exception-caught
            errors.append(e)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(6)]
    servers = [threading.Thread(target=server) for _ in range(3)]
    for thread in threads + servers:
        thread.start()
    for thread in threads:
        thread.join(60)
    a.flush(b.id, 20)
    until = time.monotonic() + 10
    while len(received) < 600 and time.monotonic() < until:
        time.sleep(0.001)
    b.close()
    for thread in servers:
        thread.join(10)
    assert not errors and answers == [True] * 600, (errors, len(answers))
    assert sorted(received) == sorted(b"%d.%d" % (n, i) for n in range(6) for i in range(100))
    end(a, b)


def test_fork():
    a, b = pair()
    a.send(b.id, b"x")
    m = b.receive(5)
    pid = os.fork()
    if not pid:
        rc = 1
        try:
            expect_error(ripc.Closed, errno.ESHUTDOWN, lambda: m[0])
            expect_error(ripc.Closed, errno.EOWNERDEAD, a.send, b.id, b"y")
            del m
            gc.collect()
            with ripc.Context(OPTIONS) as own:
                own.register().send(b.id, b"child")
            rc = 0
        except BaseException:
            traceback.print_exc()
        os._exit(rc)
    assert bytes(b.receive(10)) == b"child"
    assert os.waitpid(pid, 0)[1] == 0 and bytes(m) == b"x"
    end(a, b)


def spawned(dest):
    with ripc.Context(OPTIONS) as context:
        context.register().call(dest, b"spawned", 10)


def test_spawn():
    b = ripc.Context(OPTIONS).register()
    process = multiprocessing.get_context("spawn").Process(target=spawned, args=(b.id,))
    process.start()
    m = b.receive(30)
    assert bytes(m) == b"spawned"
    m.reply(b"ok")
    process.join(30)
    assert process.exitcode == 0
    end(b)


def test_exit():
    """The interpreter ends while threads send, receive and hold views."""
    for last in ("", "import sys; sys.exit(3)", "raise SystemError"):
        peer = python("""
a, b = (ripc.Context(options).register() for _ in range(2))
def send():
    try:
        while True:
            a.send(b.id, bytes(100), timeout=1)
    except ripc.Error:
        pass
def receive():
    global kept
    for m in b:
        kept = m[0], m
for f in (send, send, receive, receive):
    threading.Thread(target=f, daemon=True).start()
import time
time.sleep(0.1)
""" + last, stderr=subprocess.DEVNULL)
        assert peer.wait(60) == (3 if "3" in last else 1 if last else 0), peer.returncode
    peer = python("""
import asyncio
a, b = (ripc.Context(options).register() for _ in range(2))
async def ask():
    while True:
        await a.call_async(b.id, bytes(200000), 10)
async def answer(m):
    await asyncio.sleep(0.001)
    return m[0]
async def main():
    global tasks
    tasks = [asyncio.create_task(ask()) for _ in range(20)]
    tasks.append(asyncio.create_task(b.serve_async(answer)))
    await asyncio.sleep(0.1)
    raise SystemExit(4)
asyncio.run(main())
""", stderr=subprocess.PIPE)
    text = peer.communicate(timeout=60)[1]
    assert peer.returncode == 4 and b"Fatal" not in text, (peer.returncode, text)


def test_interrupt():
    """A signal handler runs although the main thread waits."""
    a = ripc.Context(OPTIONS, peer_timeout_ms=30000).register()
    # A peer that does not read: long answers and reliable messages do not end.
    peer = python(f"s = ripc.Context(options).register()\ns.send({a.id}, b'up')\n"
                  f"s.call({a.id}, b'q', 60)")
    dest, request = a.receive(20).source, a.receive(20)
    peer.send_signal(signal.SIGSTOP)
    a.send(dest, b"reliable", 5, reliable=True)
    signal.signal(signal.SIGUSR1, signal.default_int_handler)
    for wait in (lambda: a.send(dest, bytes(1 << 20), 30), lambda: a.flush(dest, 30),
                 lambda: request.reply(bytes(1 << 20), 30), lambda: a.receive(30),
                 lambda: a.send(4711, b"x", 30), lambda: a.call(4711, b"x", 30),
                 lambda: a.context.connect(4711, 30)):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        expect_error_type(KeyboardInterrupt, wait)
    peer.kill()
    peer.wait()
    end(a)


def test_long_answer():
    a, b = pair()
    call = a.start_call(b.id, b"q", 10)
    b.receive(5).reply(bytes(1 << 20))
    assert len(call.wait(5)[0]) == 1 << 20
    end(a, b)


def test_log():
    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    logger = logging.getLogger("ripc.test")
    logger.addHandler(Handler())
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    ripc.log_to(logger, logging.DEBUG)
    a, b = pair()
    a.send(b.id, b"connects")
    end(a, b)
    until = time.monotonic() + 10
    while not lines and time.monotonic() < until:
        time.sleep(0.01)
    ripc.log_to(None)
    assert lines


async def cancelled(task):
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("no CancelledError")


def test_cancellation():
    """Tasks that end in the middle of calls and messages. Their memory is the program's again."""
    async def main():
        a, b = pair()
        started = asyncio.Event()
        gone = []

        async def handler(m):
            started.set()
            while not m.cancelled:
                await asyncio.sleep(0.001)
            gone.append(bytes(m[0][:4]))

        server = asyncio.create_task(b.serve_async(handler))
        for data in (b"short", bytes(100000)):
            started.clear()
            into = bytearray(1000)
            task = asyncio.create_task(a.call_async(b.id, data, 30, into=into))
            await asyncio.wait_for(started.wait(), 10)
            await cancelled(task)
            until = time.monotonic() + 10
            while time.monotonic() < until:
                try:
                    into.append(1)
                    break
                except BufferError:
                    await asyncio.sleep(0.001)
            assert len(into) == 1001
        until = time.monotonic() + 10
        while len(gone) < 2 and time.monotonic() < until:
            await asyncio.sleep(0.001)
        assert gone == [b"shor", bytes(4)], gone
        # Nobody holds the service: the message never leaves, and the memory is free again.
        data = bytearray(100000)
        task = asyncio.create_task(a.send_async(4711, data, 30))
        await asyncio.sleep(0.02)
        expect_error_type(BufferError, data.append, 1)
        await cancelled(task)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                data.append(1)
                break
            except BufferError:
                await asyncio.sleep(0.001)
        assert len(data) == 100001
        # A task that is cancelled when its message is there does not take it.
        c = b.context.register()
        waiting = [asyncio.create_task(c.receive_async()) for _ in range(20)]
        await asyncio.sleep(0.01)
        for i in range(10):
            a.send(c.id, b"%d" % i)
        for task in waiting[:10]:
            task.cancel()
        done = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        kept = [bytes(m) for m in done if isinstance(m, ripc.Message)]
        assert sorted(kept) == [b"%d" % i for i in range(10)], done
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)
        end(a, b)

    asyncio.run(main())


def test_asyncio():
    async def main():
        a, b = pair()

        async def handler(m):
            if bytes(m) == b"denied":
                raise PermissionError(errno.EACCES, "not for you")
            if bytes(m) == b"never":
                await asyncio.sleep(60)
            return bytes(1 << 20) if bytes(m) == b"big" else b"re:" + bytes(m)

        server = asyncio.create_task(b.serve_async(handler))
        assert bytes(await a.call_async(b.id, b"q", 5)) == b"re:q"
        assert len((await a.call_async(b.id, b"big", 5))[0]) == 1 << 20
        answers = await asyncio.gather(*(a.call_async(b.id, b"%d" % i, 10) for i in range(200)))
        assert [bytes(m) for m in answers] == [b"re:%d" % i for i in range(200)]
        try:
            await a.call_async(b.id, b"denied", 5)
        except ripc.Refused as e:
            assert e.errno == errno.EACCES
        task = asyncio.create_task(a.call_async(b.id, b"never", 30))
        await asyncio.sleep(0.05)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        assert bytes(await a.call_async(b.id, b"after", 5)) == b"re:after"
        b.close()
        await asyncio.wait_for(server, 10)
        c = b.context.register()
        waiting = [asyncio.create_task(c.receive_async()) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        await a.send_async(c.id, b"x" * 64)
        await a.send_async(c.id, bytes(1 << 20))
        sizes = sorted(len(bytes(m)) for m in await asyncio.wait_for(
            asyncio.gather(*waiting[1:]), 10))
        assert sizes == [64, 1 << 20]
        for kind, call in ((ripc.Timeout, c.receive_async(0.02)),
                           (ripc.Unreachable, a.send_async(4711, b"x", 0.1)),
                           (ripc.WouldBlock, a.send_async(4711, b"x", 0)),
                           (ripc.Timeout, a.send_async(4711, bytes(1 << 20), 0.1))):
            try:
                await call
            except kind as e:
                assert e.strerror
                continue
            raise AssertionError(f"no {kind.__name__}")
        last = asyncio.create_task(c.receive_async())
        await asyncio.sleep(0.01)
        end(a, b)
        try:
            await asyncio.wait_for(last, 10)
        except ripc.Closed:
            return
        raise AssertionError("no Closed")

    asyncio.run(main())
