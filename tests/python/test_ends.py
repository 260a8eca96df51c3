# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ends of objects: dropped in a running loop, closed by several threads, cut off by fork()."""
import asyncio
import errno
import gc
import os
import signal
import subprocess
import threading
import time
import traceback
import weakref

import ripc
from support import OPTIONS, end, expect_error, expect_error_type, pair, python


async def no_message(service):
    try:
        await service.receive_async(0.001)
    except ripc.Timeout:
        return
    raise AssertionError("a message")


def test_dropped_in_a_loop():
    """A loop does not keep what it has waited for, and the next descriptor of that number works."""
    async def main():
        a = ripc.Context(OPTIONS).register()
        numbers, alive = set(), []
        for i in range(12):
            service = ripc.Context(OPTIONS).register()
            numbers.add(service.fileno())
            await no_message(service)
            if i % 2:
                call = asyncio.create_task(service.call_async(a.id, b"q", 10))
                (await a.receive_async(10)).reply(b"answer")
                assert bytes(await call) == b"answer"
                del call
            a.send(service.id, b"x")
            assert bytes(await service.receive_async(10)) == b"x"
            await no_message(service)
            alive += [weakref.ref(service), weakref.ref(service.context)]
            del service
            gc.collect()
        # The loop refers to the last exceptions for a moment.
        await no_message(a)
        await no_message(a)
        gc.collect()
        assert len(numbers) < 12 and not any(ref() for ref in alive), numbers
        for _ in range(10):
            await no_message(a)
        assert [len(reader.waiters) for reader in a._aio.readers.values()] == [0]
        end(a)

    asyncio.run(main())


def test_collected_in_a_lock():
    """The garbage collector ends a context while another one has the lock of the module."""
    process = python("""
import asyncio, gc
from ripc import _aio
async def wait(service):
    try:
        await service.receive_async(0.001)
    except ripc.Timeout:
        pass
async def drop():
    service = ripc.Context(options).register()
    service.context.register_memory(bytearray(5000))
    await service.context.register().send_async(4711, b"x", 0.001)
class Lock:
    def __init__(self, lock):
        self.lock = lock
    def __enter__(self):
        self.lock.acquire()
        gc.collect()
    def __exit__(self, *_):
        self.lock.release()
gc.disable()
try:
    asyncio.run(drop())
except ripc.Error:
    pass
_aio._lock = Lock(_aio._lock)
asyncio.run(wait(ripc.Context(options).register()))
""")
    try:
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def in_child(run):
    """Runs a function in a child of fork(), for 20 s at most."""
    pid = os.fork()
    if not pid:
        try:
            signal.alarm(20)
            run()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    return os.waitpid(pid, 0)[1]


def test_fork_in_a_wait():
    """A thread of the parent waits for a request, with its lock, when the child closes."""
    a = ripc.Context(OPTIONS).register()
    request = a.start_send(4711, bytes(100))
    thread = threading.Thread(target=expect_error,
                              args=(ripc.Error, errno.ECANCELED, request.wait))
    thread.start()
    try:
        # It has the lock but for moments.
        assert [in_child(a.context.close) for _ in range(3)] == [0] * 3
        assert not request.done
    finally:
        end(a)
        thread.join(10)


def test_fork_in_a_loop():
    """A thread of the parent is in its event loop, with the lock of the module."""
    from ripc import _aio

    def child():
        async def main():
            a = ripc.Context("transports=self").register()
            b = a.context.register()
            call = asyncio.create_task(a.call_async(b.id, b"q", 10))
            (await b.receive_async(10)).reply(b"answer")
            await call

        asyncio.run(main())

    held, over = threading.Event(), threading.Event()

    def hold():
        with _aio._lock:
            held.set()
            over.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        assert in_child(child) == 0
    finally:
        over.set()
        thread.join(10)


def test_closed_by_threads():
    errors = []

    def close(context, together):
        together.wait()
        try:
            context.close()
        except ripc.Error as e:
            errors.append(e)

    for _ in range(10):
        context, together = ripc.Context(OPTIONS), threading.Barrier(3)
        memory = [bytearray(5000) for _ in range(20)]
        for one in memory:
            context.register_memory(one)
        threads = [threading.Thread(target=close, args=(context, together)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert not errors, errors


def test_closed_in_register():
    """A service that comes into being while its context is closed, but still has a message."""
    a, b = (ripc.Context(OPTIONS, resolver="udp").register() for _ in range(2))
    a.send(b.id, b"x")
    m = b.receive(5)
    result = []

    def register():
        try:
            result.append(b.context.register(6001))
        except ripc.Error as e:
            result.append(e)

    thread = threading.Thread(target=register)
    thread.start()
    time.sleep(0.01)
    b.context.close()
    thread.join(10)
    assert isinstance(result[0], ripc.Closed) or not result[0].id, result
    del m
    end(a)


def test_late():
    """A peer has stopped in the middle of a message: nobody knows whether it will be delivered."""
    a = ripc.Context(OPTIONS, peer_timeout_ms=30000).register()
    for send in (lambda *arguments: a.send(*arguments),
                 lambda *arguments: asyncio.run(a.send_async(*arguments))):
        peer = python(f"s = ripc.Context(options).register()\ns.send({a.id}, b'up')\ns.receive()")
        dest = a.receive(20).source
        peer.send_signal(signal.SIGSTOP)
        expect_error(ripc.PeerLost, errno.EPIPE, send, dest, bytes(1 << 20), 0.2)
        peer.kill()
        peer.wait()
    end(a)


def test_no_thread():
    """At the limit of threads a cancelled task cancels its message itself."""
    async def main():
        a = ripc.Context(OPTIONS).register()
        data = bytearray(100000)
        task = asyncio.create_task(a.send_async(4711, data, 30))
        await asyncio.sleep(0.02)
        start = threading.Thread.start

        def limit(_):
            raise RuntimeError("can't start new thread")

        threading.Thread.start = limit
        try:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        finally:
            threading.Thread.start = start
        assert task.cancelled()
        del task
        # The loop refers to the last exception for a moment.
        await no_message(a)
        gc.collect()
        data.append(1)
        end(a)

    asyncio.run(main())


def test_earlier_loss():
    """The loss of a reliable message is reported once, also if the next one could be sent."""
    options = f"{OPTIONS} peer_timeout_ms=200"
    a, holder = ripc.Context(options), ripc.Context(options)
    first, second = a.register(), a.register()
    service = holder.register(5000)
    for sender in (first, second):
        sender.send(5000, b"received", reliable=True)
        sender.flush(5000, 10)
    service.close()
    first.send(5000, b"lost", reliable=True)

    def until_lost():
        # On a slow machine the refusal of the first one arrives before this one is sent.
        second.send(5000, b"lost", reliable=True)
        second.flush(5000, 20)

    expect_error(ripc.Unreachable, errno.EHOSTUNREACH, until_lost)
    service = holder.register(5000)
    expect_error(ripc.Unreachable, errno.EHOSTUNREACH,
                 lambda: first.send(5000, b"not sent", 10, reliable=True))
    first.send(5000, b"next", 10, reliable=True)
    assert bytes(service.receive(10)) == b"next"
    end(first, service)


def test_earlier_loss_in_a_loop():
    """send_async() tries twice before it waits: the second attempt may report the loss."""
    from ripc import _aio
    lib = _aio.lib

    class Lib:
        results = [-errno.EAGAIN, -errno.EPIPE, 0]

        def __getattr__(self, name):
            return getattr(lib, name)

        def ripc_send_short(self, *_):
            return self.results.pop(0)

    a, b = pair()
    _aio.lib = Lib()
    try:
        expect_error(ripc.PeerLost, errno.EPIPE, asyncio.run,
                     a.send_async(b.id, b"x", 10, reliable=True))
    finally:
        _aio.lib = lib
    end(a, b)


def test_slices():
    """The slices of a wait are no longer than its timeout together."""
    from ripc import _service
    a = ripc.Context(OPTIONS).register()
    send, waits = _service._send, []

    def unreachable(*arguments):
        waits.append(arguments[5])
        time.sleep(waits[-1] / 1000)
        return -errno.EHOSTUNREACH

    _service._send = unreachable
    try:
        expect_error(ripc.Unreachable, errno.EHOSTUNREACH, a.send, 4711, b"x", 0.25)
    finally:
        _service._send = send
    assert 0 < sum(waits) <= 250, waits
    end(a)


def test_cancelled_when_done():
    a, b = pair()
    call = a.start_call(b.id, b"q", 10)
    # A long answer has arrived when reply() returns.
    b.receive(5).reply(b"answer" * 20000)
    assert not call.cancel() and bytes(call.wait(0)) == b"answer" * 20000
    end(a, b)


def test_registration():
    """Memory can be resized when its registration has ended, although that is still referred to."""
    context = ripc.Context(OPTIONS)
    for end_it in (lambda registration: registration.close(), lambda _: context.close()):
        memory = bytearray(5000)
        registration = context.register_memory(memory)
        expect_error_type(BufferError, memory.append, 1)
        end_it(registration)
        memory.append(1)
        registration.close()


def test_collected():
    """The collector ends a context with all that refers to its memory, in any order."""
    process = python("""
import gc
def cycle():
    a, b = (ripc.Context(options).register() for _ in range(2))
    a.add_window(a.context.alloc(100000))
    a.add_window(a.context.alloc(100000))
    memory = bytearray(5000)
    a.context.register_memory(memory)
    a.add_window(memory)
    b.start_send(a.id, bytes(90000), return_buffers=b.context.alloc(1000))
    landed = a.receive(10)
    assert landed.placement() is ripc.Placement.WINDOW
    call = b.start_call(a.id, b.context.alloc(5000), into=b.context.alloc(1000))
    request = a.receive(10)
    request.reply(bytes(900))
    answer = call.wait(10)
    assert answer.placement() is ripc.Placement.RETURN_BUFFER
    sending = b.start_send(4711, b.context.alloc(1000))
    kept = [a, b, landed, landed[0], call, request, answer, answer[0], sending, sending._kept]
    kept.append(kept)
    return memory
def small_cycle():
    service = ripc.Context(options).register()
    memory = bytearray(5000)
    service.context.register_memory(memory)
    # The collector has the context behind its handle from now on.
    handle = service.context._glue
    gc.collect()
    kept = [service]
    kept.append(kept)
    return memory
gc.disable()
for i in range(20):
    memory = cycle() if i % 2 else small_cycle()
    gc.collect()
    memory.append(1)
""", stderr=subprocess.PIPE, env=dict(os.environ, MALLOC_PERTURB_="77"))
    text = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and not text, (process.returncode, text.decode())


def test_collected_in_a_wait():
    """The collector ends the context in a thread that has the lock of one of its requests."""
    a = ripc.Context(OPTIONS).register()
    request = a.start_send(4711, bytes(100))

    def close():
        with request._lock:
            a.context.close()

    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    expect_error(ripc.Error, errno.ECANCELED, request.wait)


def test_landed_at_once():
    """An item lands in a window, and is received, before add_window() has returned."""
    from ripc import _service
    a, b = pair()
    lib, landed = _service.lib, []

    class Lib:
        def __getattr__(self, name):
            return getattr(lib, name)

        def ripc_window_add(self, *arguments):
            rc = lib.ripc_window_add(*arguments)
            if not rc:
                a.start_send(b.id, bytes(90000))
                landed.append(b.receive(10))
            return rc

    window = b.context.alloc(100000)
    _service.lib = Lib()
    try:
        b.add_window(window)
        assert landed[0].placement() is ripc.Placement.WINDOW and landed[0]._kept[0]
        assert not b._targets
    finally:
        _service.lib = lib
    b.add_window(window)
    expect_error(ripc.Error, errno.EBUSY, b.add_window, window)
    assert len(b._targets) == 1
    end(a, b)
