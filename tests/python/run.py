# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the functions test_* of all modules test_*.py beside it, or of those that are named, and
prints the closing line of all test programs. RIPC_TEST_CASE: one function, without test_.
VERBOSE=1 prints how long each takes."""
import glob
import importlib
import logging
import os
import sys
import time
import traceback

import support


def main(modules):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    logging.getLogger("ripc").setLevel(logging.CRITICAL)
    only = os.environ.get("RIPC_TEST_CASE")
    for module in map(importlib.import_module, modules):
        for name, test in list(vars(module).items()):
            if not name.startswith("test_") or only not in (None, name[5:]):
                continue
            try:
                started = time.monotonic()
                test()
                if os.environ.get("VERBOSE"):
                    print(f"{name}: {time.monotonic() - started:.2f} s")
                counts["passed"] += 1
            except support.Skip as reason:
                counts["skipped"] += 1
                print(f"SKIP: {name}: {reason}")
            except Exception:
                counts["failed"] += 1
                print(f"FAIL: {name}\n{traceback.format_exc()}")
    print("python: " + ", ".join(f"{n} {what}" for what, n in counts.items()), flush=True)
    return counts["failed"] > 0


if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.exit(main(sys.argv[1:] or sorted(os.path.basename(path)[:-3] for path in
                                         glob.glob(os.path.join(folder, "test_*.py")))))
