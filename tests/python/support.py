# SPDX-License-Identifier: LGPL-2.1-or-later
"""Helpers of the tests."""
import subprocess
import sys

import ripc

OPTIONS = "transports=shm,self interfaces=lo"


class Skip(Exception):
    """The test cannot run here."""


def expect_error(kind, number, function, *args, **keywords):
    try:
        function(*args, **keywords)
    except kind as e:
        assert e.errno == number and e.strerror, repr(e)
        return e
    raise AssertionError(f"no {kind.__name__}")


def expect_error_type(kind, function, *args):
    try:
        function(*args)
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def pair():
    """A service in each of two contexts."""
    return ripc.Context(OPTIONS).register(), ripc.Context(OPTIONS).register()


def end(*services):
    for service in services:
        service.context.close()


def python(code, **keywords):
    """A process that runs this code."""
    return subprocess.Popen([sys.executable, "-c", f"import ripc, threading\n"
                             f"options = {OPTIONS!r}\n{code}"], **keywords)
