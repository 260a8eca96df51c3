/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The findings of ripc-info, as text and as JSON. */
#ifndef RIPC_TOOLS_INFO_H
#define RIPC_TOOLS_INFO_H

#include "ripc.h"

#include <stdbool.h>
#include <sys/resource.h>

#define INFO_SETTINGS_MAX   32
#define INFO_DEVICES_MAX    32
#define INFO_TRANSPORTS_MAX 16
#define INFO_RESOLVERS_MAX  8

struct info_setting {
	char text[256];     /* as the user wrote it, name=value */
	const char *origin; /* "environment" or "option" */
};

/* One port of an RDMA device, as the kernel describes it. */
struct info_device {
	char name[64];
	unsigned port;
	char link[32];  /* "InfiniBand" or "Ethernet" */
	char state[32]; /* such as "ACTIVE" */
	char node[32];  /* node type, such as "CA" or "RNIC" */
};

struct info_transport {
	char name[32];
	bool open;
	char text[512]; /* its address, or the reason why it is unavailable */
};

struct info_resolver {
	char name[32]; /* of a back end, or "cache" or "keys" */
	bool works;
	char text[512]; /* its state, or the reason why it is left out */
};

struct info {
	char host[256], kernel[256];
	unsigned cpus;
	int open_error; /* what ripc_open() returned; < 0: no context, nothing of it below */
	char open_detail[1024];
	bool has_instance; /* a service of our own could be registered and looked up */
	uint8_t instance[16];
	char instance_error[1024]; /* if not: why */
	unsigned nsettings, ndevices, ntransports, nresolvers;
	struct info_setting settings[INFO_SETTINGS_MAX];
	struct info_device devices[INFO_DEVICES_MAX];
	struct info_transport transports[INFO_TRANSPORTS_MAX];
	struct info_resolver resolvers[INFO_RESOLVERS_MAX];
	struct ripc_limits limits;
	struct rlimit memlock, nofile;
	/* pages, pages, KiB per page; 0: none */
	unsigned long long huge_total, huge_free, huge_kib;
	char transparent[64]; /* mode of transparent huge pages; empty if the kernel has none */
};

/* Fills all of *info. The context is opened with @settings, and closed again. */
void info_gather(struct info *info, const char *settings);

/* Prints for people. */
void info_print(const struct info *info);

/* Prints JSON. Return: 0, or -1 with an error message when this build has no JSON or no memory. */
int info_print_json(const struct info *info);

#endif
