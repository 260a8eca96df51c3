/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Files and the standard streams. A file is replayed at a fixed rate or at the recorded one, with
 * new origin times; lines of standard input pass as they come, with their own.
 */
#include "node.h"
#include "ticker.h"
#include "../tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often recorded times are compared with the clock. */
#define REPLAY_HZ  5000
#define BUFFER_LEN 65536
/* A write of so much takes about 10 us, which is the time that samples wait meanwhile. */
#define OUT_BUFFER 16384
#define FLUSH_HZ   1
/* How long a sink that takes nothing more is waited for, when a signal ends the gateway. */
#define STOP_MS 500
/* Of a regular file at standard input. */
#define LINES_PER_TICK 1000
/* Reads in one call, so that a source without samples does not keep the loop from its signals. */
#define FILLS_MAX 4

struct file_state {
	struct ticker ticker, flush;
	uv_poll_t poll;
	int fd;
	/*
	 * the sink, or -1; bytes in out_buffer, of which out_written are written, and the first
	 * out_head are no sample
	 */
	int out;
	char *out_buffer;
	size_t out_len, out_written, out_head;
	size_t out_chunk; /* bytes of one write at most */
	bool out_lines;   /* a terminal: each line is written at once */
	int out_error;    /* a negative errno, or 0 */
	bool ended;
	/* bytes of text at @at; @skip: the rest of a line that was too long comes first */
	size_t at, len;
	bool skip;
	unsigned line;
	unsigned fills; /* reads in this call */
	bool rewound;   /* since the last sample */
	/* the next sample of a recorded file, and the shift of its times to those of the replay */
	struct sample next;
	bool have_next, have_shift;
	int64_t shift_ns;
	char text[BUFFER_LEN + 1];
};

static void malformed(struct node *node, const struct file_state *s, const char *fault)
{
	char why[PLAN_TEXT_MAX + 128];

	snprintf(why, sizeof(why), "%s:%u: %s", *node->plan->uri ? node->plan->uri : "stdin",
		 s->line, fault);
	node_malformed(node, why);
}

/* Return: a line without its end, or NULL if none is complete. */
static char *buffered_line(struct file_state *s)
{
	char *line = s->text + s->at, *end = memchr(line, '\n', s->len);

	if (!end)
		return NULL;
	/* A zero byte would end the text before the line does. */
	for (char *nul = memchr(line, 0, (size_t)(end - line)); nul;
	     nul = memchr(nul, 0, (size_t)(end - nul)))
		*nul = '?';
	*end = 0;
	s->len -= (size_t)(end + 1 - line);
	s->at += (size_t)(end + 1 - line);
	s->line++;
	return line;
}

/* Reads more text. Return: bytes, 0 at the end of the file, -EAGAIN: none, or not in this call. */
static ssize_t fill(struct node *node, struct file_state *s)
{
	ssize_t n;

	if (s->fills++ == FILLS_MAX)
		return -EAGAIN;
	if (s->len == BUFFER_LEN) {
		s->skip = true;
		s->len = 0;
	}
	memmove(s->text, s->text + s->at, s->len);
	s->at = 0;
	n = read(s->fd, s->text + s->len, BUFFER_LEN - s->len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n < 0)
		malformed(node, s, strerror(errno));
	if (n <= 0 && (s->len || s->skip)) {
		/* The last line has no newline. */
		s->text[s->len++] = '\n';
		return 1;
	}
	s->len += n > 0 ? (size_t)n : 0;
	return n < 0 ? 0 : n;
}

/* Return: 1 with a sample, 0 at the end of the file, -EAGAIN if none is there yet. */
static int next_sample(struct node *node, struct file_state *s, struct sample *sample)
{
	for (;;) {
		const char *why = NULL;
		char *line = buffered_line(s);
		ssize_t n;
		int rc;

		if (line && s->skip) {
			s->skip = false;
			malformed(node, s, "the line is longer than 65536 bytes");
			continue;
		}
		if (line) {
			rc = text_decode(node->plan->format, sample, line, &why);
			if (rc > 0) {
				s->rewound = false;
				return 1;
			}
			if (rc < 0)
				malformed(node, s, why);
			continue;
		}
		n = fill(node, s);
		if (n > 0)
			continue;
		/* A file without any sample is not read for ever. */
		if (n || node->plan->eof != EOF_REWIND || s->rewound || lseek(s->fd, 0, SEEK_SET))
			return (int)n;
		s->rewound = true;
		s->have_shift = false;
		s->line = 0;
	}
}

static void end(struct node *node, struct file_state *s)
{
	ticker_stop(&s->ticker);
	if (uv_is_active((uv_handle_t *)&s->poll))
		uv_poll_stop(&s->poll);
	if (!s->ended)
		gateway_source_ended(node->gateway);
	s->ended = true;
}

static void on_rate(void *arg, uint64_t missed)
{
	struct node *node = arg;
	struct file_state *s = node->state;
	struct sample sample;
	int rc;

	node->missed += missed;
	node->late = s->ticker.late;
	s->fills = 0;
	rc = next_sample(node, s, &sample);
	if (!rc)
		end(node, s);
	if (rc <= 0)
		return;
	sample.origin_ns = gateway_now_ns();
	node_deliver(node, &sample);
}

/* Delivers all samples that are due. */
static void on_replay(void *arg, uint64_t missed)
{
	const int64_t now = gateway_now_ns();
	struct node *node = arg;
	struct file_state *s = node->state;
	int rc = 1;

	(void)missed;
	s->fills = 0;
	for (;;) {
		if (!s->have_next)
			rc = next_sample(node, s, &s->next);
		if (!rc)
			end(node, s);
		if (rc <= 0)
			return;
		s->have_next = true;
		if (!s->have_shift)
			s->shift_ns = now - s->next.origin_ns;
		s->have_shift = true;
		if (s->next.origin_ns + s->shift_ns > now)
			return;
		s->next.origin_ns += s->shift_ns;
		s->have_next = false;
		node_deliver(node, &s->next);
	}
}

/* Delivers the complete lines of some reads, max at most. */
static void on_lines(struct node *node, unsigned max)
{
	struct file_state *s = node->state;
	struct sample sample;
	int rc = 1;

	s->fills = 0;
	while (max-- && (rc = next_sample(node, s, &sample)) > 0)
		node_deliver(node, &sample);
	if (!rc)
		end(node, s);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	/* No complete line may be left: the descriptor reports those to be read only. */
	on_lines(poll->data, UINT_MAX);
}

static void on_stdin_tick(void *arg, uint64_t missed)
{
	(void)missed;
	on_lines(arg, LINES_PER_TICK);
}

static int start_stdin(struct node *node, struct file_state *s)
{
	uv_loop_t *loop = &node->gateway->loop;
	int rc;

	s->fd = dup(STDIN_FILENO);
	if (s->fd < 0)
		return -errno;
	/* A regular file cannot be waited for. */
	if (uv_poll_init(loop, &s->poll, s->fd))
		return ticker_start(&s->ticker, loop, REPLAY_HZ, on_stdin_tick, node);
	s->poll.data = node;
	rc = uv_poll_start(&s->poll, UV_READABLE | UV_DISCONNECT, on_readable);
	return rc;
}

static int start_source(struct node *node, struct file_state *s)
{
	const double rate = node->plan->rate;
	struct stat st;

	node->gateway->open_sources++;
	if (node->plan->type == NODE_STDIO)
		return start_stdin(node, s);
	/* A pipe without a writer would not be opened. */
	s->fd = open(node->plan->uri, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	/* To read from it could wait, and it may have no end. */
	if (!S_ISREG(st.st_mode)) {
		tool_error("node %s: %s is no regular file: read it with the type stdio",
			   node->plan->name, node->plan->uri);
		return -EINVAL;
	}
	return ticker_start(&s->ticker, &node->gateway->loop, rate == 0 ? REPLAY_HZ : rate,
			    rate == 0 ? on_replay : on_rate, node);
}

/* The samples that are still in the buffer are not sent. */
static void lose_buffer(struct node *node, struct file_state *s, int error)
{
	const char *begin = s->out_buffer + s->out_written, *end = s->out_buffer + s->out_len;
	uint64_t lines = 0;

	for (const char *p = begin; p < end; p++)
		lines += *p == '\n';
	lines -= s->out_written < s->out_head;
	node->sent -= lines;
	node->not_sent += lines;
	node->gateway->incomplete = true;
	if (!s->out_error && error == -EINTR)
		tool_error("node %s: not all samples could be written: the reader takes no more, "
			   "%zu bytes are left",
			   node->plan->name, (size_t)(end - begin));
	else if (!s->out_error)
		tool_error("node %s: not all samples could be written: %s", node->plan->name,
			   strerror(-error));
	s->out_error = error;
	/* The next sample begins a line, also behind a part of one. */
	if (s->out_written && begin[-1] == '\n') {
		s->out_head = 0;
	} else if (s->out_written) {
		*s->out_buffer = '\n';
		s->out_head = 1;
	}
	s->out_len = s->out_head;
	s->out_written = 0;
}

/*
 * Writes the buffer. Waits for a sink that takes no more until a signal ends the gateway, and then
 * not at all, or STOP_MS if that is the @last write. Return: 0 or a negative errno.
 */
static int write_buffer(struct node *node, struct file_state *s, bool last)
{
	int64_t give_up_ns = 0;

	while (s->out_written < s->out_len) {
		struct pollfd sink = {.fd = s->out, .events = POLLOUT};
		size_t left = s->out_len - s->out_written;
		ssize_t n = -1;

		if (tool_stopped && !give_up_ns)
			give_up_ns = gateway_now_ns() + (last ? STOP_MS * INT64_C(1000000) : 0);
		/* In slices: a signal may arrive just before the call. */
		if (poll(&sink, 1, 50) > 0)
			n = write(s->out, s->out_buffer + s->out_written,
				  left < s->out_chunk ? left : s->out_chunk);
		else
			errno = EAGAIN;
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			lose_buffer(node, s, -errno);
			return s->out_error;
		}
		if (n > 0) {
			s->out_written += (size_t)n;
		} else if (give_up_ns && gateway_now_ns() >= give_up_ns) {
			if (last)
				lose_buffer(node, s, -EINTR);
			return -EINTR;
		}
	}
	s->out_len = s->out_written = s->out_head = 0;
	return 0;
}

/* Return: 0 or a negative errno: the line is not in the buffer. */
static int put(struct node *node, struct file_state *s, const char *text, size_t len)
{
	int rc = s->out_len + len > OUT_BUFFER ? write_buffer(node, s, false) : 0;

	if (rc)
		return rc;
	memcpy(s->out_buffer + s->out_len, text, len);
	s->out_len += len;
	/* An error is counted with the samples in the buffer. */
	if (s->out_lines)
		write_buffer(node, s, false);
	return 0;
}

static void on_flush(void *arg, uint64_t missed)
{
	struct node *node = arg;

	(void)missed;
	write_buffer(node, node->state, false);
}

static int start_sink(struct node *node, struct file_state *s)
{
	const char *header = text_header(node->plan->format);
	struct stat st;

	if (node->plan->type == NODE_STDIO)
		s->out = dup(STDOUT_FILENO);
	else
		s->out = open(node->plan->uri,
			      O_WRONLY | O_CREAT | O_CLOEXEC |
				      (node->plan->continued ? O_APPEND : O_TRUNC),
			      0666);
	if (s->out < 0 || fstat(s->out, &st))
		return -errno;
	s->out_buffer = malloc(OUT_BUFFER);
	if (!s->out_buffer)
		return -ENOMEM;
	/* The pages are touched before the first deadline. */
	memset(s->out_buffer, 0, OUT_BUFFER);
	/* A pipe that can be written takes so much without blocking. */
	s->out_chunk = S_ISREG(st.st_mode) ? OUT_BUFFER : PIPE_BUF;
	s->out_lines = isatty(s->out);
	if (!node->plan->continued) {
		s->out_head = s->out_len = strlen(header);
		memcpy(s->out_buffer, header, s->out_len);
	}
	return ticker_start(&s->flush, &node->gateway->loop, FLUSH_HZ, on_flush, node);
}

static int start(struct node *node, bool source, bool sink)
{
	struct file_state *s = calloc(1, sizeof(*s));
	int rc = 0;

	node->state = s;
	if (!s)
		return -ENOMEM;
	s->fd = s->out = -1;
	if (source && sink && node->plan->type == NODE_FILE) {
		tool_error("node %s: a file is read or written, not both", node->plan->name);
		return -EINVAL;
	}
	if (sink)
		rc = start_sink(node, s);
	if (!rc && source)
		rc = start_source(node, s);
	if (rc)
		tool_error("node %s: %s: %s", node->plan->name,
			   *node->plan->uri ? node->plan->uri : "standard stream", strerror(-rc));
	return rc;
}

static int write_line(struct node *node, const struct sample *sample)
{
	struct file_state *s = node->state;
	char line[TEXT_LINE_MAX];
	const size_t len = text_encode(node->plan->format, sample, line);

	return put(node, s, line, len);
}

static void flush(struct node *node)
{
	struct file_state *s = node->state;

	if (s->out_buffer)
		write_buffer(node, s, true);
}

static void stop(struct node *node)
{
	struct file_state *s = node->state;

	if (!s)
		return;
	ticker_free(&s->ticker);
	ticker_free(&s->flush);
	if (s->fd >= 0)
		close(s->fd);
	/* A network file system may report an error only now. */
	if (s->out >= 0 && close(s->out))
		lose_buffer(node, s, -errno);
	free(s->out_buffer);
	free(s);
}

const struct node_ops node_file = {
	.start = start, .write = write_line, .stop = stop, .flush = flush};
