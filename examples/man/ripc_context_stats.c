/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sends a message to service 42, and prints the counters of the context, of the sending service,
 * and of the peer that holds service 42.
 */
#include <ripc.h>

#include <stdio.h>

static void print(const char *what, const struct ripc_stats *stats)
{
	printf("%s: %llu short messages sent, %llu stalls, %llu lost\n",
	       what, (unsigned long long)stats->short_sent,
	       (unsigned long long)stats->credit_stalls,
	       (unsigned long long)stats->datagrams_lost);
}

int main(void)
{
	struct ripc_stats all, mine, peer;
	struct ripc_service *me;
	char text[] = "hello";
	struct iovec item = {text, 5};

	all.size = mine.size = peer.size = sizeof(struct ripc_stats);
	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me) ||
	    ripc_send_short(me, 42, &item, 1, NULL, 2000) ||
	    ripc_context_stats(NULL, &all) ||
	    ripc_service_stats(me, &mine) ||
	    ripc_peer_stats(NULL, 42, &peer)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	print("context", &all);
	print("service", &mine);
	print("peer", &peer);
	return ripc_close(NULL) != 0;
}
