/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sends the second half of an array of the program to service 43.
 * The array is registered once; then any part of it travels without a copy through a buffer of
 * the library.
 * The page ripc_message_detach(3) shows the service.
 */
#include <ripc.h>

#include <stdio.h>

#define N 100000

static double samples[N];

int main(void)
{
	struct iovec half = {samples + N / 2, sizeof(samples) / 2};
	struct ripc_service *me;

	for (int i = 0; i < N; i++)
		samples[i] = i;
	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me) ||
	    ripc_buf_register(NULL, samples, sizeof(samples)) ||
	    ripc_send_long(me, 43, &half, 1, NULL, 5000) ||
	    ripc_buf_unregister(NULL, samples)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("%zu bytes delivered\n", half.iov_len);
	return ripc_close(NULL) != 0;
}
