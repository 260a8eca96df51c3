/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc-ping: finds a service, reports the path to it, and measures round trips if it answers. */
#include "histogram.h"
#include "ripc.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRIES_MAX    3   /* pings without an answer, from the first on, after which it gives up */
#define SIZE_MIN       24u /* magic, token, number */
#define SIZE_MAX_BYTES (64u << 20)
#define COUNT_MAX      1000000000u
#define MS_MAX         3600000u
#define SIGNAL_MS      200 /* a signal does not end a wait: look for it now and then */
#define ANSWERS_MAX    64  /* answers under way */

/* An answer under way. Its items are those of the message. */
struct answer {
	struct ripc_message *message;
	struct ripc_request *request;
	uint64_t deadline_ns;
};

struct ping {
	bool serve; /* answer instead of asking */
	bool quiet; /* send no message: look up and connect only */
	bool call;  /* by calls, not by messages */
	bool verbose;
	uint64_t id;
	uint64_t count; /* 0: until stopped */
	uint64_t interval_ms, timeout_ms, size;
	struct tool_settings settings;
	struct ripc *ctx;
	const char *name; /* of the service, NULL: by its id */
	struct ripc_service *service;
	uint64_t token; /* marks our pings, unlike late ones of another process: our service id */
	uint64_t sent, answered;
	struct histogram *rtt;
	unsigned char *buf;                 /* size bytes */
	struct answer answers[ANSWERS_MAX]; /* of --serve */
	unsigned nanswers;
};

static void usage(FILE *to)
{
	fprintf(to,
		"usage: ripc-ping [options] SERVICE  find a service and measure round trips to "
		"it\n"
		"       ripc-ping [options] --serve SERVICE   answer for it (its id, a name, or "
		"any)\n"
		"  -c, --count N       pings to send, 0 to %u, 0 for no end (4)\n"
		"  -i, --interval MS   milliseconds from one to the next, 0 to %u (1000)\n"
		"  -s, --size BYTES    bytes in each, %u to 64M (64)\n"
		"  -W, --timeout MS    milliseconds to wait for the service, and for each\n"
		"                      answer, 1 to %u (2000)\n"
		"  -C, --call          send calls: a lost connection loses no ping\n"
		"  -n, --no-message    send no message: look the service up and connect\n"
		"  -v, --verbose       explain why this transport was chosen and others were not\n"
		"  -o, --option K=V    a setting for the library, see ripc(7)\n"
		"  -V, --version       print the version\n"
		"  -h, --help          print this\n",
		COUNT_MAX, MS_MAX, SIZE_MIN, MS_MAX);
}

/* Return: -1 to go on, else the exit code. */
static int parse(struct ping *p, int argc, char **argv)
{
	static const struct option options[] = {
		{"count", required_argument, NULL, 'c'},
		{"interval", required_argument, NULL, 'i'},
		{"size", required_argument, NULL, 's'},
		{"timeout", required_argument, NULL, 'W'},
		{"call", no_argument, NULL, 'C'},
		{"no-message", no_argument, NULL, 'n'},
		{"verbose", no_argument, NULL, 'v'},
		{"serve", no_argument, NULL, 'S'},
		{"option", required_argument, NULL, 'o'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	bool good = true;
	int c;

	while (good && (c = getopt_long(argc, argv, "c:i:s:W:CnvSo:Vh", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			good = tool_parse_range("--count", "a number", optarg, 0, COUNT_MAX,
						&p->count);
			break;
		case 'i':
			good = tool_parse_range("--interval", "milliseconds", optarg, 0, MS_MAX,
						&p->interval_ms);
			break;
		case 's':
			good = tool_parse_size(optarg, SIZE_MAX_BYTES, &p->size) &&
			       p->size >= SIZE_MIN;
			if (!good)
				tool_error("--size %s: must be a number of bytes from %u to 64M",
					   optarg, SIZE_MIN);
			break;
		case 'W':
			good = tool_parse_range("--timeout", "milliseconds", optarg, 1, MS_MAX,
						&p->timeout_ms);
			break;
		case 'C':
			p->call = true;
			break;
		case 'n':
			p->quiet = true;
			break;
		case 'v':
			p->verbose = true;
			break;
		case 'S':
			p->serve = true;
			break;
		case 'o':
			if (!tool_settings_add(&p->settings, optarg, NULL))
				return TOOL_ERROR;
			break;
		case 'V':
			printf("%s %s\n", tool_name, ripc_version());
			return TOOL_OK;
		case 'h':
			usage(stdout);
			return TOOL_OK;
		default:
			usage(stderr);
			return TOOL_ERROR;
		}
	}
	if (!good)
		return TOOL_ERROR;
	if (optind + 1 != argc) {
		tool_error(optind == argc ? "a service is missing" : "one service only");
		usage(stderr);
		return TOOL_ERROR;
	}
	return tool_parse_service(argv[optind], p->serve, &p->id, &p->name) ? -1 : TOOL_ERROR;
}

/* Ends the answers that have arrived, have failed, or whose time is up. Waits for one of them. */
static void end_answers(struct ping *p, int wait_ms)
{
	unsigned i = 0;

	while (i < p->nanswers) {
		struct answer *a = &p->answers[i];
		int rc = ripc_request_wait(&a->request, wait_ms);

		wait_ms = 0;
		if (a->request && tool_now_ns() < a->deadline_ns) {
			i++;
			continue;
		}
		if (a->request)
			rc = ripc_request_cancel(&a->request, SIGNAL_MS);
		if (rc == -ECANCELED)
			tool_error("answer to service %llu: not delivered in %llu ms",
				   (unsigned long long)a->message->source,
				   (unsigned long long)p->timeout_ms);
		else if (rc)
			tool_fail(rc, "answer to service %llu",
				  (unsigned long long)a->message->source);
		ripc_message_free(a->message);
		*a = p->answers[--p->nanswers];
	}
}

/*
 * Sends a message back as it is, so that its sender can match it. Never waits for the sender, which
 * may be gone, unless too many answers are under way.
 */
static void answer(struct ping *p, struct ripc_message *m)
{
	struct answer *a = &p->answers[p->nanswers];
	int rc = m->call ? ripc_reply(m, m->items, m->nitems, 0)
			 : ripc_send_short(p->service, m->source, m->items, m->nitems, NULL, 0);

	/* The answer is long, or its receiver is not connected. */
	if (rc == -EAGAIN || rc == -EMSGSIZE) {
		a->message = m;
		a->deadline_ns = tool_now_ns() + p->timeout_ms * 1000000;
		rc = m->call ? ripc_reply_start(m, m->items, m->nitems, NULL, &a->request)
			     : ripc_send_async(p->service, m->source, m->items, m->nitems, NULL,
					       &a->request);
		if (!rc) {
			p->nanswers++;
			return;
		}
	}
	if (rc)
		tool_fail(rc, "answer to service %llu", (unsigned long long)m->source);
	ripc_message_free(m);
}

static int serve(struct ping *p)
{
	int rc = tool_register(p->ctx, p->id, p->name, &p->service);

	if (rc) {
		tool_fail(rc, "%s", tool_service_text(p->id, p->name));
		return TOOL_ERROR;
	}
	printf("answering for %s\n", tool_service_text(ripc_service_id(p->service), p->name));
	fflush(stdout);
	while (!tool_stopped) {
		struct ripc_message *m;

		end_answers(p, p->nanswers == ANSWERS_MAX ? SIGNAL_MS : 0);
		if (p->nanswers == ANSWERS_MAX)
			continue;
		rc = ripc_receive(p->service, &m, SIGNAL_MS);
		if (!rc)
			answer(p, m);
		else if (rc != -ETIMEDOUT) {
			tool_fail(rc, "receive");
			return TOOL_ERROR;
		}
	}
	return TOOL_OK;
}

static bool is_answer(const struct ping *p, const struct ripc_message *m)
{
	return m->nitems == 1 && m->items[0].iov_len == p->size &&
	       !memcmp(m->items[0].iov_base, p->buf, SIZE_MIN);
}

/* An answer has come. */
static void count_answer(struct ping *p, uint64_t number, uint64_t took_ns)
{
	histogram_add(p->rtt, took_ns);
	p->answered++;
	printf("answer %llu: %llu bytes in %.1f us\n", (unsigned long long)number,
	       (unsigned long long)p->size, (double)took_ns / 1e3);
	fflush(stdout);
}

/* As ping_once(). */
static int call_once(struct ping *p, uint64_t number)
{
	struct iovec item = {.iov_base = p->buf, .iov_len = p->size};
	uint64_t begin_ns = tool_now_ns();
	struct ripc_request *request = NULL;
	struct ripc_message *m = NULL;
	bool match;
	int rc;

	memcpy(p->buf + 16, &number, sizeof(number));
	p->sent++;
	rc = ripc_call_start(p->service, p->id, &item, 1, NULL, (int)p->timeout_ms, &request);
	while (!rc && request && !tool_stopped) {
		rc = ripc_call_wait(&request, &m, SIGNAL_MS);
		if (rc == -EINPROGRESS)
			rc = 0;
	}
	if (request) {
		ripc_request_cancel(&request, SIGNAL_MS);
		return 0;
	}
	match = !rc && m && is_answer(p, m);
	ripc_message_free(m);
	if (match)
		count_answer(p, number, tool_now_ns() - begin_ns);
	if (!rc || rc == -ETIME || rc == -ETIMEDOUT)
		return match;
	tool_fail(rc, "call %llu to %s", (unsigned long long)number,
		  tool_service_text(p->id, p->name));
	return rc;
}

/* Return: 1 answered, 0 not in time, < 0 a library error, which was printed. */
static int ping_once(struct ping *p, uint64_t number)
{
	struct iovec item = {.iov_base = p->buf, .iov_len = p->size};
	uint64_t begin_ns = tool_now_ns(), deadline_ns = begin_ns + p->timeout_ms * 1000000;
	int rc;

	memcpy(p->buf + 16, &number, sizeof(number));
	p->sent++;
	rc = ripc_send(p->service, p->id, &item, 1, NULL, (int)p->timeout_ms);
	if (rc) {
		tool_fail(rc, "ping %llu to %s", (unsigned long long)number,
			  tool_service_text(p->id, p->name));
		return rc;
	}
	for (;;) {
		uint64_t now_ns = tool_now_ns(), wait_ms;
		struct ripc_message *m;
		bool match;

		if (now_ns >= deadline_ns || tool_stopped)
			return 0;
		wait_ms = (deadline_ns - now_ns + 999999) / 1000000;
		rc = ripc_receive(p->service, &m, wait_ms < SIGNAL_MS ? (int)wait_ms : SIGNAL_MS);
		if (rc == -ETIMEDOUT)
			continue;
		if (rc) {
			tool_fail(rc, "receive");
			return rc;
		}
		now_ns = tool_now_ns();
		match = is_answer(p, m);
		ripc_message_free(m);
		if (match) {
			count_answer(p, number, now_ns - begin_ns);
			return 1;
		}
	}
}

static void pause_ms(uint64_t ms)
{
	/* Ended by a signal, unlike a loop over clock_nanosleep(). */
	if (ms && !tool_stopped)
		usleep((useconds_t)(ms * 1000));
}

static int ping(struct ping *p)
{
	int rc;

	/* Without end, but not after nobody can see it any more. */
	for (uint64_t i = 0; (!p->count || i < p->count) && !tool_stopped && !ferror(stdout); i++) {
		if (i)
			pause_ms(p->interval_ms);
		if (tool_stopped)
			break;
		rc = p->call ? call_once(p, i) : ping_once(p, i);
		if (!rc && !p->answered && !tool_stopped &&
		    (p->sent == RETRIES_MAX || p->sent == p->count)) {
			/*
			 * Datagrams may be lost, but a service that leaves the first few unanswered
			 * does not answer pings; more of them would only fill its queue.
			 */
			printf("%s is there but does not answer pings (%llu sent, no answer in "
			       "%llu ms)%s\n",
			       tool_service_text(p->id, p->name), (unsigned long long)p->sent,
			       (unsigned long long)p->timeout_ms,
			       p->call ? ""
				       : ": a service that answers calls alone needs --call, "
					 "--no-message sends nothing");
			return TOOL_NO_ANSWER;
		}
		if (!rc && !tool_stopped)
			printf("answer %llu: none in %llu ms\n", (unsigned long long)i,
			       (unsigned long long)p->timeout_ms);
		if (rc == -ESHUTDOWN || rc == -EINVAL)
			return TOOL_ERROR;
	}
	printf("%llu sent, %llu answered", (unsigned long long)p->sent,
	       (unsigned long long)p->answered);
	if (p->answered)
		printf(", round trip min/p50/p99/max %.1f/%.1f/%.1f/%.1f us",
		       (double)histogram_min(p->rtt) / 1e3,
		       (double)histogram_percentile(p->rtt, 50) / 1e3,
		       (double)histogram_percentile(p->rtt, 99) / 1e3,
		       (double)histogram_max(p->rtt) / 1e3);
	printf("\n");
	return p->answered == p->sent && p->sent ? TOOL_OK : TOOL_NO_ANSWER;
}

static int ask(struct ping *p)
{
	struct ripc_route route = {.size = sizeof(route)};
	char instance[37], name[256];
	uint64_t begin_ns, took_ns;
	int rc;

	rc = ripc_service_register(p->ctx, RIPC_ANY_ID, 0, &p->service);
	if (rc) {
		tool_fail(rc, "register a service to be answered at");
		return TOOL_ERROR;
	}
	begin_ns = tool_now_ns();
	rc = tool_route_lookup(p->ctx, p->id, &route, p->timeout_ms);
	took_ns = tool_now_ns() - begin_ns;
	if (rc) {
		tool_fail(rc, "%s", tool_service_text(p->id, p->name));
		return tool_exit_of(rc);
	}
	tool_instance_text(route.instance, instance);
	printf("service %llu: found and connected in %.3f ms\n", (unsigned long long)p->id,
	       (double)took_ns / 1e6);
	if (*route.name) {
		tool_name_text(route.name, name);
		printf("name %s\n", name);
	}
	printf("instance %s, by %s at %s, short messages to %llu bytes\n", instance,
	       route.transport, route.address, (unsigned long long)route.short_max);
	if (p->verbose)
		printf("because %s\n", route.reason);
	fflush(stdout);
	if (p->quiet)
		return TOOL_OK;
	p->token = ripc_service_id(p->service);
	memcpy(p->buf, TOOL_PING_MAGIC, TOOL_PING_MAGIC_LEN);
	memcpy(p->buf + 8, &p->token, sizeof(p->token));
	return ping(p);
}

int main(int argc, char **argv)
{
	struct ping p = {.count = 4, .interval_ms = 1000, .timeout_ms = 2000, .size = 64};
	int rc;

	tool_begin("ripc-ping");
	rc = parse(&p, argc, argv);
	if (rc >= 0)
		return tool_finish(rc);
	tool_catch_signals();
	p.rtt = histogram_new();
	p.buf = calloc(1, p.size);
	if (!p.rtt || !p.buf) {
		tool_error("out of memory");
		rc = TOOL_ERROR;
		goto out;
	}
	rc = ripc_open(&p.ctx, p.settings.text);
	if (rc) {
		tool_fail(rc, "cannot open the library");
		rc = TOOL_ERROR;
		goto out;
	}
	if (!p.serve)
		tool_watch_output();
	rc = p.serve ? serve(&p) : ask(&p);
	ripc_close(p.ctx);
out:
	histogram_free(p.rtt);
	free(p.buf);
	return tool_finish(rc);
}
