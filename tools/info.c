/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc-info: what the library finds on this host, and why what is missing is missing. */
#include "doctor.h"
#include "info.h"
#include "tool.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MS = 500, LIST_MS_MAX = 60000 };

static void usage(FILE *to)
{
	fprintf(to,
		"usage: ripc-info [-j | -d [-s SERVICE]] [-o key=value]...\n"
		"       ripc-info -l [-j] [-W MS] [-o key=value]...\n"
		"  -j, --json          print JSON\n"
		"  -d, --doctor        look for common faults, and print remedies\n"
		"  -s, --service SERVICE  with -d: ask about this service, too (a number is its\n"
		"                      id, anything else its name)\n"
		"  -l, --services      list the services that are registered on the network\n"
		"  -W, --timeout MS    with -l: milliseconds to wait for answers (%d)\n"
		"  -o, --option K=V    a setting for the library, see ripc(7)\n"
		"  -V, --version       print the version\n"
		"  -h, --help          print this\n",
		LIST_MS);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"doctor", no_argument, NULL, 'd'},
		{"service", required_argument, NULL, 's'},
		{"services", no_argument, NULL, 'l'},
		{"timeout", required_argument, NULL, 'W'},
		{"option", required_argument, NULL, 'o'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct tool_settings settings = {0};
	struct info *info;
	bool json = false, doctor = false, list = false;
	uint64_t service = 0, timeout_ms = 0;
	const char *name = NULL;
	int c, rc = TOOL_OK;

	tool_begin("ripc-info");
	while ((c = getopt_long(argc, argv, "jds:lW:o:Vh", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			json = true;
			break;
		case 'd':
			doctor = true;
			break;
		case 's':
			if (!tool_parse_service(optarg, false, &service, &name))
				return TOOL_ERROR;
			break;
		case 'l':
			list = true;
			break;
		case 'W':
			if (!tool_parse_range("--timeout", "milliseconds", optarg, 1, LIST_MS_MAX,
					      &timeout_ms))
				return TOOL_ERROR;
			break;
		case 'o':
			if (!tool_settings_add(&settings, optarg, NULL))
				return TOOL_ERROR;
			break;
		case 'V':
			printf("%s %s\n", tool_name, ripc_version());
			return tool_finish(TOOL_OK);
		case 'h':
			usage(stdout);
			return tool_finish(TOOL_OK);
		default:
			usage(stderr);
			return TOOL_ERROR;
		}
	}
	if (optind != argc) {
		tool_error("%s: not expected", argv[optind]);
		usage(stderr);
		return TOOL_ERROR;
	}
	if (doctor && (json || list)) {
		tool_error("--doctor and %s exclude each other", json ? "--json" : "--services");
		return TOOL_ERROR;
	}
	if (service && !doctor) {
		tool_error("--service is an option of --doctor: add --doctor, or use ripc-ping");
		return TOOL_ERROR;
	}
	if (timeout_ms && !list) {
		tool_error("--timeout is an option of --services");
		return TOOL_ERROR;
	}
	tool_watch_output();
	if (list)
		return tool_finish(
			info_services(settings.text, timeout_ms ? (int)timeout_ms : LIST_MS, json));
	info = calloc(1, sizeof(*info));
	if (!info) {
		tool_error("out of memory");
		return TOOL_ERROR;
	}
	info_gather(info, settings.text);
	if (doctor)
		rc = doctor_print(info, settings.text, service, name) ? TOOL_NO_ANSWER : TOOL_OK;
	else if (!json)
		info_print(info);
	else if (info_print_json(info))
		rc = TOOL_ERROR;
	if (info->open_error && !doctor) {
		tool_error("cannot open the library: %s: %s", ripc_strerror(info->open_error),
			   info->open_detail);
		rc = TOOL_ERROR;
	}
	free(info);
	return tool_finish(rc);
}
