# SPDX-License-Identifier: LGPL-2.1-or-later
"""The examples."""
import os
import re
import subprocess
import sys

from support import Skip


def example(name):
    return os.path.join(os.environ.get("srcdir", "."), "examples/python", name)


def test_kv():
    """The client in Python with the server in C."""
    server, client = "examples/kv", example("kv.py")
    if not os.access(server, os.X_OK):
        raise Skip("examples/kv is not built")
    store = f"python/kv/{os.getpid()}"

    def kv(*arguments):
        return subprocess.run([sys.executable, client, *arguments], timeout=60, check=False,
                              capture_output=True, text=True)

    process = subprocess.Popen([server, "serve", store], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().endswith("is ready\n")
        put = kv("put", store, "apple", "3")
        assert put.returncode == 0, put.stderr
        assert kv("get", store, "apple").stdout == "3\n"
        assert kv("delete", store, "apple").returncode == 0
        missing = kv("get", store, "apple")
        assert missing.returncode == 1 and missing.stderr.startswith("kv.py: ")
        assert kv("get").returncode == 2
    finally:
        process.kill()
        process.wait()


def test_pipeline():
    try:
        import numpy  # noqa: F401
    except ImportError as e:
        raise Skip("numpy is not installed") from e

    def start(*arguments):
        return subprocess.Popen([sys.executable, example("pipeline.py"), *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, RIPC_TRANSPORTS="shm,self"))

    processes = [start("filter"), start("camera", "60"), start("display")]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    text = outputs[2][0]
    assert re.search(r"^frame 0: brightness 127\.\d, 12\.\d % edges$", text, re.MULTILINE), text
    last = re.search(r"^60 frames in .* s, (\d+) of 120 images in place$", text, re.MULTILINE)
    assert last and int(last[1]), text

    wrong = start("camera", "many")
    assert "usage: " in wrong.communicate(timeout=60)[1] and wrong.returncode == 2

    display, filtering = start("display"), start("filter")
    assert display.stdout.readline() == "the display is ready\n"
    camera = start("camera", "100000")
    assert display.stdout.readline().startswith("frame 0: ")
    filtering.kill()
    assert "the filter is gone: " in display.communicate(timeout=60)[1]
    assert display.returncode == 1
    camera.kill()
    for process in (camera, filtering):
        process.communicate()
