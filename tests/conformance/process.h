/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The conformance programs as children of themselves. */
#ifndef RIPC_TESTS_CONFORMANCE_PROCESS_H
#define RIPC_TESTS_CONFORMANCE_PROCESS_H

/*
 * main() of "PROGRAM --child serve|feed OPTIONS ID DEST". Writes one byte to its standard output
 * when it is ready.
 */
int conf_child(int argc, char **argv);

#endif
