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
- Service: send(), receive(), call(), serve(), groups, watch(). start_send() and start_call() return
  at once, with a Request or a Call. The forms for asyncio are send_async(), receive_async(),
  call_async(), serve_async() and reply_async().
- Message: a sequence of memoryviews of the memory into which the message was received. That is the
  memory of the program, if it offers some: call(into=...), Service.add_window(), return_buffers.
- Error, a subclass of OSError, with errno and a sentence that names the cause. Timeout,
  Unreachable, PeerLost, Closed and Refused are kinds of it. Arguments of a wrong type or range
  raise TypeError, ValueError or BufferError (memory that is read-only or not contiguous).
- id(): the id of a name. log_to(): the log of the library to logging.

Timeouts are in seconds; None waits for ever. Calls release the interpreter's lock while they wait,
and signal handlers run, such as that of Ctrl-C, except in register(), services(), join() and
send_group(). Objects may be used by several threads. After fork() the child opens a context of its
own.

ripc.h has what this module leaves out on purpose:
- ripc_send_short() and ripc_send_long(): send() selects one, and start_send() is always long.
- ripc_message_detach(), ripc_buf_free() and RIPC_FREE_ITEMS: memory is freed with its last view.
- ripc_buf_realloc(): memory with views cannot move.
- ripc_send(), ripc_call(), ripc_request_test(): send(), call() and done use others, so that signal
  handlers run while they wait.
- ripc_completion_fd(), ripc_completion_next(): for asyncio they are used inside; threads have
  Request.wait() and Call.wait().
- windows of a whole context: a service has its own.
"""
from ._context import Context
from ._errors import (Closed, Error, PeerLost, Refused, Timeout, Unreachable, WouldBlock, id)
from ._log import log_to
from ._memory import Registration
from ._message import Event, Message, Placement
from ._request import Call, Request
from ._ripc import ffi as _ffi
from ._ripc import lib as _lib
from ._service import Service

__all__ = ["Call", "Closed", "Context", "Error", "Event", "Message", "PeerLost", "Placement",
           "Refused", "Registration", "Request", "Service", "Timeout", "Unreachable",
           "WouldBlock", "id", "log_to"]

__version__: str = _ffi.string(_lib.ripc_version()).decode()

for _name in __all__:
    globals()[_name].__module__ = "ripc"
