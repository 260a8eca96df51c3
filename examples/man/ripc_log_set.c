/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Looks service 42 up and writes the log to a file of the program.
 * The function may be called by any thread and must not call the library.
 */
#include <ripc.h>

#include <stdio.h>

static void write_line(void *arg, enum ripc_log_level level,
		       const char *line)
{
	static const char *const names[] = {"error", "warning", "info",
					    "debug"};

	fprintf((FILE *)arg, "ripc %s: %s\n", names[level], line);
}

int main(void)
{
	int err;

	ripc_log_set(write_line, stdout, RIPC_LOG_DEBUG);
	err = ripc_route_lookup(NULL, 42, NULL, 2000);
	if (err)
		fprintf(stderr, "%s\n", ripc_error_detail());
	ripc_close(NULL);
	/* No more lines: the file may be closed now. */
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	return err != 0;
}
