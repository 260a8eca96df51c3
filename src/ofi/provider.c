/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/provider.h"
#include "ofi/fabric.h"
#include "ofi/info.h"
#include "ofi/wire.h"
#include "ripc.h"

#include <stdio.h>

#define EAGER_DEFAULT     16384
#define EAGER_LIMIT       (OFI_WINDOW_BYTES / 2)
#define DIRECT_DEFAULT    16384
#define CONNECT_DEFAULT_S 10

struct ofi_settings ofi_settings = {EAGER_DEFAULT, DIRECT_DEFAULT, CONNECT_DEFAULT_S};

static void cleanup(void)
{
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
}

struct fi_provider ofi_provider = {
	.version = FI_VERSION(RIPC_VERSION_MAJOR, RIPC_VERSION_MINOR),
	.fi_version = FI_VERSION(1, 17),
	.name = "ripc",
	.getinfo = ofi_getinfo,
	.fabric = ofi_fabric_open,
	.cleanup = cleanup,
};

/* The log of libripc is part of the log of libfabric. */
static void log_line(void *arg, enum ripc_log_level level, const char *line)
{
	if (level <= RIPC_LOG_WARN)
		FI_WARN(&ofi_provider, FI_LOG_CORE, "%s\n", line);
	else
		FI_INFO(&ofi_provider, FI_LOG_CORE, "%s\n", line);
}

int ofi_refused(const char *what)
{
	FI_WARN(&ofi_provider, FI_LOG_CORE, "%s: not served by this provider\n", what);
	return -FI_ENOSYS;
}

int ofi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return ofi_refused("fi_bind");
}

int ofi_no_control(struct fid *fid, int command, void *arg)
{
	return ofi_refused("fi_control");
}

int ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return ofi_refused("fi_open_ops");
}

const char *ofi_strerror(int error, char *buf, size_t len)
{
	const char *text = fi_strerror(error);

	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

FI_EXT_INI
{
	fi_param_define(&ofi_provider, "eager_size", FI_PARAM_SIZE_T,
			"longest message in bytes that is sent before it is matched (%d)",
			EAGER_DEFAULT);
	fi_param_define(&ofi_provider, "direct_size", FI_PARAM_SIZE_T,
			"shortest long message in bytes that is received without a copy (%d)",
			DIRECT_DEFAULT);
	fi_param_define(&ofi_provider, "connect_timeout", FI_PARAM_INT,
			"seconds for which an unknown peer is searched for (%d)",
			CONNECT_DEFAULT_S);
	fi_param_get_size_t(&ofi_provider, "eager_size", &ofi_settings.eager_max);
	fi_param_get_size_t(&ofi_provider, "direct_size", &ofi_settings.direct_min);
	fi_param_get_int(&ofi_provider, "connect_timeout", &ofi_settings.connect_timeout_s);
	ofi_settings.eager_max = MIN(ofi_settings.eager_max, EAGER_LIMIT);
	if (!ofi_settings.direct_min)
		ofi_settings.direct_min = 1;
	if (fi_log_enabled(&ofi_provider, FI_LOG_INFO, FI_LOG_CORE))
		ripc_log_set(log_line, NULL, RIPC_LOG_INFO);
	else if (fi_log_enabled(&ofi_provider, FI_LOG_WARN, FI_LOG_CORE))
		ripc_log_set(log_line, NULL, RIPC_LOG_WARN);
	return &ofi_provider;
}
