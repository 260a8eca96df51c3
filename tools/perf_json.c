/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The JSON report. Figures that a test does not have are left out. */
#include "config.h"
#include "perf.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_JANSSON
#include <jansson.h>

bool perf_has_json(void)
{
	return true;
}

/* The value of the first line "key<blanks>: value" of a file; "" if there is none. */
static void read_value(const char *path, const char *key, char *value, size_t len)
{
	FILE *file = fopen(path, "re");
	char line[512];

	value[0] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		const char *at = line;

		line[strcspn(line, "\n")] = 0;
		if (*key) {
			at = strncmp(line, key, strlen(key)) ? NULL : strchr(line, ':');
			if (!at)
				continue;
			at += 1 + strspn(at + 1, " \t");
		}
		snprintf(value, len, "%s", at);
		break;
	}
	if (file)
		fclose(file);
}

/* Texts of the host may be anything: what is not UTF-8 is left out rather than fatal. */
static void set_text(json_t *object, const char *key, const char *text)
{
	json_t *value = *text ? json_string(text) : NULL;

	if (value)
		json_object_set_new(object, key, value);
}

/* Settings that change a latency: each as the kernel reports it. */
static void set_files(json_t *e)
{
	static const struct {
		const char *name, *path, *key;
	} files[] = {
		{"isolated_cpus", "/sys/devices/system/cpu/isolated", ""},
		{"nohz_full_cpus", "/sys/devices/system/cpu/nohz_full", ""},
		{"huge_pages", "/proc/meminfo", "HugePages_Total"},
		{"transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled", ""},
		{"clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource", ""},
		{"load", "/proc/loadavg", ""},
	};
	char text[512];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		read_value(files[i].path, files[i].key, text, sizeof(text));
		set_text(e, files[i].name, text);
	}
}

/* The RDMA devices and their firmware; an empty list where there are none. */
static void set_devices(json_t *e)
{
	json_t *list = json_array();
	DIR *dir = opendir("/sys/class/infiniband");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		json_t *o;
		char path[512], text[128];

		if (entry->d_name[0] == '.')
			continue;
		o = json_object();
		set_text(o, "name", entry->d_name);
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/fw_ver", entry->d_name);
		read_value(path, "", text, sizeof(text));
		set_text(o, "firmware", text);
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/node_type", entry->d_name);
		read_value(path, "", text, sizeof(text));
		set_text(o, "type", text);
		json_array_append_new(list, o);
	}
	if (dir)
		closedir(dir);
	json_object_set_new(e, "devices", list);
}

static json_t *environment_json(const struct perf_args *args)
{
	json_t *e = json_object();
	time_t now = time(NULL);
	struct utsname name;
	char text[512];
	struct tm tm;

	read_value("/proc/cpuinfo", "model name", text, sizeof(text));
	set_text(e, "cpu", text);
	json_object_set_new(e, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	read_value("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", text, sizeof(text));
	set_text(e, "governor", text);
	if (!uname(&name)) {
		snprintf(text, sizeof(text), "%s %s %s", name.sysname, name.release, name.machine);
		set_text(e, "kernel", text);
		set_text(e, "host", name.nodename);
	}
	set_files(e);
	set_devices(e);
	set_text(e, "library", ripc_version());
	set_text(e, "options", args->settings.text);
	if (args->pin >= 0)
		json_object_set_new(e, "pin", json_integer(args->pin));
	if (gmtime_r(&now, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		set_text(e, "date", text);
	return e;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static json_t *times_json(const struct histogram *h)
{
	static const struct {
		const char *name;
		double percent;
	} ranks[] = {{"p10", 10},    {"p50", 50},      {"p90", 90},       {"p99", 99},
		     {"p999", 99.9}, {"p9999", 99.99}, {"p99999", 99.999}};
	json_t *o = json_object();

	json_object_set_new(o, "min", json_real(us(histogram_min(h))));
	for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++)
		json_object_set_new(o, ranks[i].name,
				    json_real(us(histogram_percentile(h, ranks[i].percent))));
	json_object_set_new(o, "max", json_real(us(histogram_max(h))));
	json_object_set_new(o, "mean", json_real(histogram_mean(h) / 1e3));
	return o;
}

/* One set of figures, into an object that has other things in it already. */
static void set_figures(json_t *to, enum perf_test test, const struct perf_figures *f)
{
	json_object_set_new(to, "count", json_integer((json_int_t)f->count));
	json_object_set_new(to, "lost", json_integer((json_int_t)f->lost));
	json_object_set_new(to, "cpu_s", json_real(f->cpu_s));
	if (test == PERF_PACED) {
		json_object_set_new(to, "missed", json_integer((json_int_t)f->missed));
		json_object_set_new(to, "refused", json_integer((json_int_t)f->refused));
		json_object_set_new(to, "late", json_integer((json_int_t)f->late));
	}
	if (test == PERF_LATENCY || test == PERF_PACED) {
		const struct histogram *h = f->rtt;

		if (!histogram_count(h))
			return;
		json_object_set_new(to, test == PERF_PACED ? "oneway_us" : "rtt_us", times_json(h));
		return;
	}
	if (!f->elapsed_ns)
		return;
	json_object_set_new(to, "rate_per_s",
			    json_real((double)(f->count - f->lost) * 1e9 / (double)f->elapsed_ns));
	json_object_set_new(to, "mb_per_s",
			    json_real((double)f->bytes * 1e3 / (double)f->elapsed_ns));
}

/* Ours divided by the baseline's, for every figure that both have; in the same shape. */
static json_t *ratio_json(json_t *ours, json_t *base)
{
	json_t *ratio = json_object(), *value;
	const char *key;

	json_object_foreach(base, key, value)
	{
		json_t *own = json_object_get(ours, key);

		if (!strcmp(key, "count") || !strcmp(key, "lost"))
			continue;
		if (json_is_object(value) && json_is_object(own))
			json_object_set_new(ratio, key, ratio_json(own, value));
		else if (json_is_number(value) && json_is_number(own) &&
			 json_number_value(value) > 0)
			json_object_set_new(
				ratio, key,
				json_real(json_number_value(own) / json_number_value(value)));
	}
	return ratio;
}

static json_t *result_json(const struct perf_args *args, const struct perf_result *r)
{
	json_t *o = json_object(), *base;

	set_text(o, "test", perf_test_name(args->test));
	set_text(o, "kind", perf_kind_name(r->kind));
	set_text(o, "transport", r->transport);
	set_text(o, "reason", r->reason);
	set_text(o, "wait", perf_wait_name(args->wait));
	json_object_set_new(o, "size", json_integer((json_int_t)r->size));
	if (args->test == PERF_PACED) {
		json_object_set_new(o, "rate_hz", json_integer((json_int_t)args->rate_hz));
		json_object_set_new(o, "pause_ns", json_integer((json_int_t)args->pause_ns));
		json_object_set_new(o, "burst", json_integer((json_int_t)args->burst));
		json_object_set_new(o, "same_clock", json_boolean(r->same_clock));
	}
	if (args->command == PERF_VERBS) {
		set_text(o, "qp", perf_qp_name(args->qp));
		set_text(o, "op", perf_op_name(args->op));
		json_object_set_new(o, "depth", json_integer(args->depth));
		json_object_set_new(o, "signal_every", json_integer(args->signal_every));
		json_object_set_new(o, "inline_bytes", json_integer(args->inline_bytes));
	}
	set_figures(o, args->test, &r->ours);
	if (!r->has_baseline)
		return o;
	base = json_object();
	set_text(base, "protocol", perf_protocol_name(args->baseline));
	set_text(base, "wait", perf_wait_name(args->baseline_wait));
	set_figures(base, args->test, &r->baseline);
	json_object_set_new(o, "ratio", ratio_json(o, base));
	json_object_set_new(o, "baseline", base);
	return o;
}

int perf_write_json(const struct perf_args *args, const struct perf_result *results, unsigned n)
{
	json_t *root = json_object(), *list = json_array();
	FILE *file = args->json_file;
	bool good;

	tool_output_begin(file);
	json_object_set_new(root, "version", json_integer(1));
	json_object_set_new(root, "environment", environment_json(args));
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, result_json(args, &results[i]));
	good = !json_object_set_new(root, "results", list) &&
	       !json_dumpf(root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) &&
	       fputc('\n', file) != EOF;
	json_decref(root);
	if (!tool_output_close(file, "--json", args->json))
		return -1;
	if (!good)
		tool_error("--json %s: out of memory", args->json);
	return good ? 0 : -1;
}
#else
bool perf_has_json(void)
{
	return false;
}

int perf_write_json(const struct perf_args *args, const struct perf_result *results, unsigned n)
{
	return -1;
}
#endif
