# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of the key-value store of examples/kv.c.

usage: kv.py get STORE KEY
       kv.py put STORE KEY VALUE
       kv.py delete STORE KEY

Each prints what was done. A get is repeated if the server is replaced; a put or delete is executed
at most once.
"""
import sys

import ripc

ITEMS = {"get": 1, "put": 2, "delete": 1}


def main(arguments):
    """The exit code: 0, 1 after an error of the store, 2 for wrong arguments."""
    if len(arguments) < 2 or len(arguments) - 2 != ITEMS.get(arguments[0]):
        print(__doc__, file=sys.stderr)
        return 2
    operation, store, *rest = arguments
    # As for kv.c, a number is an id. To the module a str is always a name.
    dest = int(store) if store.isascii() and store.isdecimal() else store
    # The store knows an operation by its first letter.
    request = [operation[:1].encode()] + [word.encode() for word in rest]
    with ripc.Context() as context:
        try:
            answer = context.register().call(dest, request, timeout=2,
                                             idempotent=operation == "get")
        except ripc.Refused as error:
            print(f"kv.py: not done: {error.strerror}", file=sys.stderr)
            return 1
        except ripc.Error as error:
            print(f"kv.py: {error.strerror}", file=sys.stderr)
            return 1
        print(bytes(answer).decode() if operation == "get" else f"{operation}: done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
