# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the C source of the module ripc._ripc. The declarations are those of the two headers.

usage: build.py ripc.h glue.h OUTPUT.c
"""
import re
import sys

import cffi


def declarations(path):
    """The text of a header without what cffi cannot read: directives and parts for C++."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    constants = "".join(f"#define {name} ...\n"
                        for name in re.findall(r"^#define ((?:RIPC|GLUE)_\w+) \S", text, flags=re.MULTILINE))
    return constants + re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def main(ripc_h, glue_h, output):
    ffi = cffi.FFI()
    ffi.cdef("struct iovec { void *iov_base; size_t iov_len; };")
    ffi.cdef(declarations(ripc_h))
    ffi.cdef(declarations(glue_h))
    ffi.set_source("ripc._ripc", '#include "glue.h"')
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
