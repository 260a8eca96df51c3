# SPDX-License-Identifier: LGPL-2.1-or-later
"""Round trips and bandwidth of the binding for Python beside pyzmq and beside C, two processes on
two processors of this host. All take turns; prints a Markdown table of medians. A column whose
module or program is missing is left out, with the reason.

usage: bindings.py BUILD [ROUNDS]

Programs of Python wait as their library does by default. C: ripc-perf, waiting adaptively, long
messages copied. Bandwidth: 256 messages of 1 MiB of the same bytes, after 64 others; the receiver
answers the last one. Messages are queued as the interface of the library offers it: a send of pyzmq
returns when the message is in its queue, and start_send() or a gathered send_async() of libripc
leaves up to 8 messages under way.
"""
import asyncio
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUND_TRIPS, LARGE, LARGE_COUNT, TIMEOUT = 3000, 1 << 20, 256, 20
UNDER_WAY, WARM_UP = 8, 64
PEER = "bench/bindings"


class Ripc:
    """A service. The first process answers, the second one sends."""

    def __init__(self, address, server):
        import ripc
        self.context = ripc.Context(f"transports={address} interfaces=lo")
        self.service = self.context.register(PEER if server else None)
        self.dest = PEER
        if not server:
            self.context.connect(PEER, TIMEOUT)

    def send(self, data):
        self.service.send(self.dest, data, TIMEOUT)

    def send_all(self, messages):
        requests = collections.deque()
        for data in messages:
            if len(requests) == UNDER_WAY:
                requests.popleft().wait(TIMEOUT)
            requests.append(self.service.start_send(self.dest, data))
        for request in requests:
            request.wait(TIMEOUT)

    def receive(self):
        message = self.service.receive(TIMEOUT)
        self.dest = message.source
        return message[0]

    async def send_async(self, data):
        await self.service.send_async(self.dest, data, TIMEOUT)

    async def send_all_async(self, messages):
        tasks = collections.deque()
        for data in messages:
            if len(tasks) == UNDER_WAY:
                await tasks.popleft()
            tasks.append(asyncio.create_task(self.send_async(data)))
        await asyncio.gather(*tasks)

    async def receive_async(self):
        message = await self.service.receive_async(TIMEOUT)
        self.dest = message.source
        return message[0]


class Zmq:
    """A socket of type PAIR."""

    def __init__(self, address, server):
        import zmq
        import zmq.asyncio
        self.plain = zmq.Context().socket(zmq.PAIR)
        for option in (zmq.SNDTIMEO, zmq.RCVTIMEO):
            self.plain.setsockopt(option, TIMEOUT * 1000)
        (self.plain.bind if server else self.plain.connect)(address)
        self.socket = zmq.asyncio.Socket(shadow=self.plain)

    def send(self, data):
        self.plain.send(data, copy=len(data) < 65536)

    def send_all(self, messages):
        for data in messages:
            self.send(data)

    def receive(self):
        return self.plain.recv(copy=False).buffer

    async def send_async(self, data):
        await self.socket.send(data, copy=len(data) < 65536)

    async def send_all_async(self, messages):
        for data in messages:
            await self.send_async(data)

    async def receive_async(self):
        return (await self.socket.recv(copy=False)).buffer


def answer(end):
    """The first process: answers every message of at most 64 bytes, and the last large one."""
    while True:
        data = end.receive()
        if len(data) == 1:
            return
        if len(data) < LARGE or data[0]:
            end.send(b"x" * min(len(data), 64))


async def answer_async(end):
    """The same with asyncio."""
    while True:
        data = await end.receive_async()
        if len(data) == 1:
            return
        if len(data) < LARGE or data[0]:
            await end.send_async(b"x" * min(len(data), 64))


def ask(end):
    """The second process. Returns the round trip in us and the bandwidth in GB/s."""
    times, small = [], b"y" * 64
    for _ in range(ROUND_TRIPS):
        start = time.perf_counter()
        end.send(small)
        end.receive()
        times.append(time.perf_counter() - start)
    for count in (WARM_UP, LARGE_COUNT):
        start = time.perf_counter()
        end.send_all([FIRST] * (count - 1) + [LAST])
        end.receive()
    rate = LARGE * LARGE_COUNT / (time.perf_counter() - start)
    end.send(b"e")
    return statistics.median(times) * 1e6, rate / 1e9


async def ask_async(end):
    """The same with asyncio."""
    times, small = [], b"y" * 64
    for _ in range(ROUND_TRIPS):
        start = time.perf_counter()
        await end.send_async(small)
        await end.receive_async()
        times.append(time.perf_counter() - start)
    for count in (WARM_UP, LARGE_COUNT):
        start = time.perf_counter()
        await end.send_all_async([FIRST] * (count - 1) + [LAST])
        await end.receive_async()
    rate = LARGE * LARGE_COUNT / (time.perf_counter() - start)
    await end.send_async(b"e")
    return statistics.median(times) * 1e6, rate / 1e9


FIRST, LAST = bytes(LARGE), b"\1" + bytes(LARGE - 1)


def child(library, address, mode, role):
    """One of the two processes of a cell."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[role == "ask"]})
    end = {"ripc": Ripc, "zmq": Zmq}[library](address, role == "answer")
    functions = {"answer": (answer, answer_async), "ask": (ask, ask_async)}[role]
    print("ready", flush=True)
    if mode == "blocking":
        result = functions[0](end)
    else:
        result = asyncio.run(functions[1](end))
    print(json.dumps(result), flush=True)


def cell(library, address, mode):
    """Runs both processes. Returns their result or the reason why there is none."""
    command = [sys.executable, __file__, "--child", library, address, mode]
    with subprocess.Popen(command + ["answer"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as first:
        try:
            if not first.stdout.readline():
                return (first.stderr.read().strip().splitlines() or ["it ended at once"])[-1]
            second = subprocess.run(command + ["ask"], capture_output=True, text=True,
                                    timeout=3 * TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return "it took too long"
        finally:
            first.kill()
    lines = second.stdout.splitlines()
    if second.returncode or len(lines) < 2:
        return (second.stderr.strip().splitlines() or ["it failed"])[-1]
    return json.loads(lines[-1])


def in_c(build, transport):
    """The same by ripc-perf."""
    perf = os.path.join(build, "tools", "ripc-perf")
    options = ["-t", transport, "-w", "adaptive", "--stop", "--json", "-", "-p", "1"]
    result = []
    for test in (["latency", "-k", "short", "-s", "64"], ["bandwidth", "-s", "1M"]):
        with subprocess.Popen([perf, "server", "-t", transport, "-w", "adaptive", "-p", "0"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, RIPC_HANDOVER="off")) as server:
            done = subprocess.run([perf] + test + options, capture_output=True, text=True,
                                  timeout=60, check=False,
                                  env=dict(os.environ, RIPC_HANDOVER="off"))
            server.kill()
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["ripc-perf failed"])[-1]
        figures = json.loads(done.stdout)["results"][0]
        result.append(figures["rtt_us"]["p50"] if "rtt_us" in figures else
                      figures["mb_per_s"] / 1e3)
    return result


def main(build, rounds):
    """Prints the table."""
    os.environ.setdefault("RIPC_INTERFACES", "lo")
    with tempfile.TemporaryDirectory() as folder:
        cells = [(f"Python, {mode}, {name}", library, address, mode)
                 for mode in ("blocking", "asyncio")
                 for name, library, address in (
                     ("libripc over shm", "ripc", "shm"),
                     ("pyzmq over ipc", "zmq", f"ipc://{folder}/socket"),
                     ("libripc over iwarp/soft", "ripc", "iwarp/soft"),
                     ("pyzmq over tcp", "zmq", "tcp://127.0.0.1:27475"))]
        cells += [(f"C, {transport}, copied", None, transport, None)
                  for transport in ("shm", "iwarp/soft")]
        results, reasons = {c[0]: [] for c in cells}, {}
        for _ in range(rounds):
            for name, library, address, mode in cells:
                result = cell(library, address, mode) if library else in_c(build, address)
                if isinstance(result, str):
                    reasons[name] = result
                else:
                    results[name].append(result)
        print("| 64 B and 1 MiB | round trip, us | GB/s | runs |\n|---|---|---|---|")
        for name, values in results.items():
            if values:
                print(f"| {name} | {statistics.median(v[0] for v in values):.2f} | "
                      f"{statistics.median(v[1] for v in values):.2f} | {len(values)} |")
        for name, reason in reasons.items():
            print(f"\n{name}: {rounds - len(results[name])} of {rounds} runs failed: {reason}")
    return 1 if reasons else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    elif len(sys.argv) in (2, 3):
        sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5))
    else:
        sys.exit(__doc__)
