/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tool.h"
#include "ripc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WATCH_STACK (64u << 10) /* bytes of stack of the thread that watches the output */
#define LOOKUP_MS   200         /* a signal does not end a look-up: begin it again now and then */

const char *tool_name = "ripc";
volatile int tool_stopped;

void tool_begin(const char *name)
{
	tool_name = name;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int access = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		/* The lowest free one, which is this one. Without /dev/null it stays closed. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", access) != fd)
			return;
	}
}

void tool_error(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s: ", tool_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

/* The detail without its "service N: ", or with a name, if @text ends with that already. */
static const char *without_prefix(const char *text, const char *detail)
{
	const char *begin = detail + strlen("service "), *end;
	size_t len = strlen(text), n;

	if (strncmp(detail, "service ", strlen("service ")))
		return detail;
	end = begin + strspn(begin, "0123456789");
	if (!strncmp(end, " (\"", 3) && (end = strstr(end, "\"): ")))
		end += 2;
	if (!end || strncmp(end, ": ", 2))
		return detail;
	n = (size_t)(end - begin);
	if (len <= n || text[len - n - 1] != ' ' || strncmp(text + len - n, begin, n))
		return detail;
	return end + 2;
}

void tool_fail(int err, const char *fmt, ...)
{
	const char *detail;
	char text[2 * TOOL_SERVICE_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	detail = without_prefix(text, ripc_error_detail());
	fflush(stdout);
	fprintf(stderr, "%s: %s: %s%s%s\n", tool_name, text, ripc_strerror(err),
		*detail ? ": " : "", detail);
}

int tool_exit_of(int err)
{
	switch (err) {
	case -EHOSTUNREACH:
	case -EAGAIN:
	case -ETIMEDOUT:
	case -EPIPE:
		return TOOL_UNREACHABLE;
	default:
		return TOOL_ERROR;
	}
}

/*
 * Reads digits, decimal or behind 0x hexadecimal. *end: behind them; @text if there are none.
 * errno: ERANGE if the number is too large, else 0.
 */
static unsigned long long read_digits(const char *text, char **end)
{
	const bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') &&
				 isxdigit((unsigned char)text[2]);

	errno = 0;
	*end = (char *)text;
	/* strtoull() would take a sign and leading blanks. */
	return isdigit((unsigned char)*text) ? strtoull(text, end, hexadecimal ? 16 : 10) : 0;
}

bool tool_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	unsigned long long v;
	char *end;

	v = read_digits(text, &end);
	if (errno || end == text || *end || v < min || v > max)
		return false;
	*value = v;
	return true;
}

bool tool_parse_range(const char *option, const char *unit, const char *text, uint64_t min,
		      uint64_t max, uint64_t *value)
{
	if (tool_parse_number(text, min, max, value))
		return true;
	tool_error("%s %s: must be %s from %llu to %llu", option, text, unit,
		   (unsigned long long)min, (unsigned long long)max);
	return false;
}

bool tool_parse_size(const char *text, uint64_t max, uint64_t *value)
{
	static const char units[] = "KMG";
	unsigned long long v;
	unsigned shift = 0;
	char *end;

	v = read_digits(text, &end);
	if (errno || end == text)
		return false;
	if (*end) {
		const char *unit = strchr(units, toupper((unsigned char)*end));

		if (!unit || end[1])
			return false;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	if (v > max >> shift)
		return false;
	*value = v << shift;
	return true;
}

/* Whether the text is a number of any size, as tool_parse_number() reads them. */
static bool is_number(const char *text)
{
	char *end;

	(void)read_digits(text, &end);
	return end != text && !*end;
}

bool tool_parse_service(const char *text, bool any, uint64_t *id, const char **name)
{
	/* Ids drawn for RIPC_ANY_ID lie below 3 * 2^62. They can be looked up, not chosen. */
	const uint64_t max = any ? RIPC_ID_LIMIT - 1 : (UINT64_C(3) << 62) - 1;

	*name = NULL;
	if (any && !strcmp(text, "any")) {
		*id = RIPC_ANY_ID;
		return true;
	}
	if (!is_number(text)) {
		*name = text;
		*id = ripc_id(text);
		if (!*id)
			tool_error("%s", ripc_error_detail());
		return *id;
	}
	if (tool_parse_number(text, 1, max, id))
		return true;
	tool_error("%s: a service is a number from 1 to %llu%s, or a name", text,
		   (unsigned long long)max, any ? ", or any" : "");
	return false;
}

const char *tool_service_text(uint64_t id, const char *name)
{
	static char text[TOOL_SERVICE_TEXT];
	int n = snprintf(text, sizeof(text), "service %llu", (unsigned long long)id);
	char clean[256];

	if (name && *name) {
		tool_name_text(name, clean);
		snprintf(text + n, sizeof(text) - (size_t)n, " (\"%s\")", clean);
	}
	return text;
}

int tool_register(struct ripc *ctx, uint64_t id, const char *name, struct ripc_service **service)
{
	return name ? ripc_register_name(ctx, name, 0, service)
		    : ripc_service_register(ctx, id, 0, service);
}

int tool_route_lookup(struct ripc *ctx, uint64_t id, struct ripc_route *route, uint64_t timeout_ms)
{
	uint64_t now_ns = tool_now_ns(), deadline_ns = now_ns + timeout_ms * 1000000, left_ms;
	int rc;

	do {
		left_ms = (deadline_ns - now_ns + 999999) / 1000000;
		rc = ripc_route_lookup(ctx, id, route,
				       left_ms < LOOKUP_MS ? (int)left_ms : LOOKUP_MS);
		now_ns = tool_now_ns();
	} while (rc == -EHOSTUNREACH && now_ns < deadline_ns && !tool_stopped);
	return rc;
}

void tool_name_text(const char *name, char text[256])
{
	size_t n = 0;

	for (; n < 255 && name[n]; n++) {
		const unsigned char c = (unsigned char)name[n];

		text[n] = c < 0x20 || c == 0x7f ? '?' : name[n];
		/* U+0080 to U+009F control terminals, too. */
		if (n && c >= 0x80 && c < 0xa0 && name[n - 1] == '\xc2')
			text[n - 1] = text[n] = '?';
	}
	text[n] = 0;
}

bool tool_settings_add(struct tool_settings *settings, const char *key, const char *value)
{
	size_t room = sizeof(settings->text) - settings->len;
	int n;

	if (!value && !strchr(key, '=')) {
		tool_error("option %s: must be key=value", key);
		return false;
	}
	n = snprintf(settings->text + settings->len, room, "%s%s%s%s", settings->len ? " " : "",
		     key, value ? "=" : "", value ? value : "");
	if (n < 0 || (size_t)n >= room) {
		settings->text[settings->len] = 0;
		tool_error("the options are longer than %zu bytes together",
			   sizeof(settings->text) - 1);
		return false;
	}
	settings->len += (size_t)n;
	return true;
}

FILE *tool_output_open(const char *option, const char *path)
{
	FILE *file = stdout;
	int fd;

	if (!strcmp(path, "-"))
		return file;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		tool_error("%s %s: %s", option, path, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	return file;
}

void tool_output_begin(FILE *file)
{
	/* Standard output may have something before. Pipes and devices have no length. */
	if (file != stdout && ftruncate(fileno(file), 0))
		errno = 0;
}

bool tool_output_close(FILE *file, const char *option, const char *path)
{
	bool good = !ferror(file);

	errno = 0;
	if (fflush(file))
		good = false;
	if (file != stdout && fclose(file))
		good = false;
	if (!good)
		tool_error("%s %s: cannot write it%s%s", option, path, errno ? ": " : "",
			   errno ? strerror(errno) : "");
	return good;
}

static void stop(int signal)
{
	tool_stopped = signal;
}

int tool_finish(int rc)
{
	bool good = !ferror(stdout);
	struct sigaction on_pipe;

	errno = 0;
	if (fflush(stdout))
		good = false;
	/* As it ends programs that do not catch it. */
	if (tool_stopped == SIGPIPE && !sigaction(SIGPIPE, NULL, &on_pipe) &&
	    on_pipe.sa_handler == stop) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	/* Some file systems report only now. EBADF: it was closed from the start, and not used. */
	if (good && fclose(stdout) && errno != EBADF)
		good = false;
	if (good)
		return rc;
	/* Not tool_error(): it would flush what cannot be written. */
	fprintf(stderr, "%s: cannot write standard output%s%s\n", tool_name, errno ? ": " : "",
		errno ? strerror(errno) : "");
	return TOOL_ERROR;
}

void tool_catch_signals(void)
{
	const struct sigaction action = {.sa_handler = stop, .sa_flags = (int)SA_RESETHAND};
	const struct sigaction pipe_action = {.sa_handler = stop};
	struct sigaction before;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* SIGPIPE stays ignored if the parent process has ignored it. */
	if (!sigaction(SIGPIPE, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGPIPE, &pipe_action, NULL);
}

static pthread_t output_user;

static void *watch_output(void *arg)
{
	/* Errors are always reported: no event is asked for. */
	struct pollfd out = {.fd = STDOUT_FILENO};

	if (poll(&out, 1, -1) == 1 && out.revents & (POLLERR | POLLHUP)) {
		tool_stopped = SIGPIPE;
		/* Ends a pause, too. */
		pthread_kill(output_user, SIGPIPE);
	}
	return NULL;
}

void tool_watch_output(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	output_user = pthread_self();
	if (pthread_attr_init(&attr))
		return;
	/* The library needs the address space, if that is limited. */
	pthread_attr_setstacksize(&attr, WATCH_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* Without memory for it, the next write shows that the reader is gone. */
	(void)pthread_create(&thread, &attr, watch_output, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

uint64_t tool_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

double tool_cpu_s(void)
{
	struct rusage use;

	if (getrusage(RUSAGE_SELF, &use))
		return 0;
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

void tool_instance_text(const uint8_t instance[16], char text[37])
{
	size_t at = 0;

	for (unsigned i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[at++] = '-';
		at += (size_t)snprintf(text + at, 37 - at, "%02x", instance[i]);
	}
}
