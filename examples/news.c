/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * News for all readers: readers join a group, and each message to the group reaches all of them.
 *
 *     ./news 5                      in any number of terminals, on any host of the network
 *     ./news 5 "the sun is out"     in another
 *     ./news weather                a group may have a name
 *
 * A group has no owner, and needs no set-up.
 */
#include <ripc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The id of a group; that of a name without bit 62, because group ids are smaller. */
static uint64_t group_arg(const char *text)
{
	char *end;
	uint64_t id = strtoull(text, &end, strncmp(text, "0x", 2) ? 10 : 16);

	return *end ? ripc_id(text) & (RIPC_GROUP_LIMIT - 1) : id;
}

static int fail(void)
{
	fprintf(stderr, "news: %s\n", ripc_error_detail());
	return 1;
}

static int flushed(void)
{
	if (!fflush(stdout))
		return 0;
	perror("news: standard output");
	return 1;
}

static int read_news(struct ripc_service *me, uint64_t group)
{
	struct ripc_message *m;

	if (ripc_group_join(me, group, 5000))
		return fail();
	printf("a reader of group %llu\n", (unsigned long long)group);
	if (flushed())
		return 1;
	while (!ripc_receive(me, &m, -1)) {
		/* A message to this service alone is not from the group. */
		if (m->group == group) {
			printf("%.*s\n", (int)m->items[0].iov_len, (char *)m->items[0].iov_base);
			if (flushed())
				return 1;
		}
		ripc_message_free(m);
	}
	return fail();
}

static int send_news(struct ripc_service *me, uint64_t group, char *text)
{
	struct iovec item = {text, strlen(text)};
	struct ripc_group_stats stats = {.size = sizeof(stats)};

	if (ripc_group_send(me, group, &item, 1, NULL, 5000) ||
	    ripc_group_stats(NULL, group, NULL, &stats))
		return fail();
	printf("%llu processes are known, of which %llu could not be reached\n",
	       (unsigned long long)stats.members, (unsigned long long)stats.unreached);
	return ripc_close(NULL) ? fail() : flushed();
}

int main(int argc, char **argv)
{
	uint64_t group = argc > 1 ? group_arg(argv[1]) : 0;
	struct ripc_service *me;

	if (argc < 2 || argc > 3 || !group) {
		fprintf(stderr, "usage: news GROUP         reads\n"
				"       news GROUP TEXT    sends\n");
		return 2;
	}
	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me))
		return fail();
	return argc == 2 ? read_news(me, group) : send_news(me, group, argv[2]);
}
