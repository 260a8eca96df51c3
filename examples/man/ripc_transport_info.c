/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lists the transports and resolvers of this host, and the reason why others are not in use.
 */
#include <ripc.h>

#include <stdio.h>

int main(void)
{
	const char *name;
	char text[512];
	int rc;

	printf("libripc %s\n", ripc_version());
	for (unsigned i = 0;; i++) {
		rc = ripc_transport_info(NULL, i, &name, text,
					 sizeof(text));
		if (rc < 0)
			break;
		printf("transport %s: %s%s\n", name,
		       rc ? "" : "unavailable: ", text);
	}
	for (unsigned i = 0;; i++) {
		rc = ripc_resolver_info(NULL, i, &name, text, sizeof(text));
		if (rc < 0)
			break;
		printf("resolver %s: %s%s\n", name,
		       rc ? "" : "unavailable: ", text);
	}
	return ripc_close(NULL) != 0;
}
