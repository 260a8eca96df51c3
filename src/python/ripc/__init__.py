# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages to services, not addresses, over the fastest network of the host.

A service is an id, or a name, with a receive queue:

    import ripc

    context = ripc.Context()
    service = context.register("demo/upper")
    for message in service:
        service.send(message.source, bytes(message).upper())

Another program, on this host or another one, sends to it:

    client = ripc.Context().register()
    client.send("demo/upper", b"hello")
    print(bytes(client.receive(timeout=5)))

- Context: one instance of the library, with its thread. Context.register() makes a Service,
  Context.alloc() memory that is sent without a copy.
- Service: send(), receive(), call(), serve(), groups, watch(). Each has a form for asyncio:
  send_async(), receive_async(), call_async(), serve_async().
- Message: a sequence of memoryviews of the memory into which the message was received.
- Error, a subclass of OSError, with errno and a sentence that names the cause. Timeout,
  Unreachable, PeerLost, Closed and Refused are kinds of it.
- id(): the id of a name. log_to(): the log of the library to logging.

Timeouts are in seconds; None waits for ever. Calls release the interpreter's lock while they wait.
Objects may be used by several threads. After fork() the child opens a context of its own.
"""
from ._context import Context
from ._errors import (Closed, Error, PeerLost, Refused, Timeout, Unreachable, WouldBlock, id)
from ._log import log_to
from ._message import Event, Message
from ._ripc import ffi as _ffi
from ._ripc import lib as _lib
from ._service import Service

__all__ = ["Closed", "Context", "Error", "Event", "Message", "PeerLost", "Refused", "Service",
           "Timeout", "Unreachable", "WouldBlock", "id", "log_to"]

__version__: str = _ffi.string(_lib.ripc_version()).decode()

for _object in (Closed, Context, Error, Event, Message, PeerLost, Refused, Service, Timeout,
                Unreachable, WouldBlock, id, log_to):
    _object.__module__ = "ripc"
