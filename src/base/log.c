/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* last in the order of locks */
static ripc_log_fn *log_fn;
static void *log_arg;
static bool log_hook_set; /* the application has set log_fn, possibly to NULL */
static atomic_int log_level = -1;

static _Thread_local char detail[RIPC__DETAIL_MAX];
/* The detail is this text, not that in detail[]; or NULL. */
static _Thread_local const char *constant_detail;

static void log_stderr(void *arg, enum ripc_log_level level, const char *line)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	fprintf(stderr, "libripc %s: %s\n", names[level & 3], line);
}

void ripc_log_set(ripc_log_fn *fn, void *arg, enum ripc_log_level level)
{
	pthread_mutex_lock(&log_lock);
	log_hook_set = true;
	log_fn = fn;
	log_arg = arg;
	atomic_store(&log_level, fn ? (int)level : -1);
	pthread_mutex_unlock(&log_lock);
}

void ripc__log_to_stderr(enum ripc_log_level level)
{
	pthread_mutex_lock(&log_lock);
	if (!log_hook_set) {
		log_fn = log_stderr;
		atomic_store(&log_level, (int)level);
	}
	pthread_mutex_unlock(&log_lock);
}

bool ripc__log_enabled(enum ripc_log_level level)
{
	return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void ripc__log(enum ripc_log_level level, const char *fmt, ...)
{
	char line[RIPC__DETAIL_MAX];
	va_list ap;

	if (!ripc__log_enabled(level))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&log_lock);
	if (log_fn)
		log_fn(log_arg, level, line);
	pthread_mutex_unlock(&log_lock);
}

int ripc__fail(int err, const char *fmt, ...)
{
	char text[RIPC__DETAIL_MAX];
	va_list ap;

	/* A second buffer: the arguments may point to the present detail. */
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(detail, text, sizeof(detail));
	constant_detail = NULL;
	return err;
}

int ripc__fail_text(int err, const char *text)
{
	constant_detail = text;
	return err;
}

const char *ripc_error_detail(void)
{
	return constant_detail ? constant_detail : detail;
}

const char *ripc_strerror(int error)
{
	/* INT_MIN has no positive counterpart; as unsigned it is no valid errno. */
	unsigned code = error < 0 ? 0u - (unsigned)error : (unsigned)error;

	/* Texts for numbers whose strerror() text would mislead, or names no limit. */
	switch (code) {
	case 0:
		return "success";
	case EHOSTUNREACH:
		return "service not found or not reachable";
	case EADDRINUSE:
		return "service id is held by another";
	case ESHUTDOWN:
		return "service or context is being closed";
	case EPIPE:
		return "peer lost, delivery not known";
	case EOWNERDEAD:
		return "context belongs to the parent process";
	case ENODEV:
		return "no usable transport";
	case EMFILE:
		return "Too many open files (ulimit -n)";
	case ENFILE:
		return "Too many open files in system (sysctl fs.file-max)";
	default: {
		const char *text = code <= INT_MAX ? strerrordesc_np((int)code) : NULL;

		return text ? text : "unknown error";
	}
	}
}

void ripc__log_atfork_child(void)
{
	pthread_mutex_init(&log_lock, NULL);
}
