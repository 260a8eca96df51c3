/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/options.h"
#include "base/host.h"
#include "base/text.h"

#include "base/resolver_chain.h"

#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <unistd.h>

extern char **environ;

enum kind { KIND_LIST, KIND_INTERFACES, KIND_CHAIN, KIND_PATH, KIND_CHOICE, KIND_NUMBER };

struct setting {
	const char *name;
	enum kind kind;
	size_t offset, size; /* of the member of struct ripc__options */
	/* KIND_CHOICE: comma-separated, in the order of the enum; KIND_LIST: allowed words */
	const char *choices;
	unsigned long long min, max; /* KIND_NUMBER */
	/* for the message: KIND_NUMBER: what the number is; KIND_LIST: words for everyone */
	const char *unit;
};

#define MEMBER(m) offsetof(struct ripc__options, m), sizeof(((struct ripc__options *)0)->m)

static const struct setting settings[] = {
	{"transports", KIND_LIST, MEMBER(transports),
	 "auto,shm,pcie,ib,iwarp/verbs,iwarp/soft,self,sim,ring/sim", 0, 0,
	 "auto,shm,pcie,ib,iwarp/verbs,iwarp/soft,self"},
	{"resolver", KIND_CHAIN, MEMBER(resolver), NULL, 0, 0, NULL},
	{"interfaces", KIND_INTERFACES, MEMBER(interfaces), NULL, 0, 0, NULL},
	{"wait", KIND_CHOICE, MEMBER(wait), "adaptive,poll,block", 0, 0, NULL},
	{"crc", KIND_CHOICE, MEMBER(crc), "auto,on,off", 0, 0, NULL},
	{"short", KIND_CHOICE, MEMBER(shorts), "auto,rdma,udp", 0, 0, NULL},
	{"multicast", KIND_CHOICE, MEMBER(multicast), "on,off", 0, 0, NULL},
	{"ib_qp", KIND_CHOICE, MEMBER(ib_qp), "rc,uc", 0, 0, NULL},
	{"path_mtu", KIND_CHOICE, MEMBER(path_mtu), "auto,256,512,1024,2048,4096", 0, 0, NULL},
	{"inline", KIND_NUMBER, MEMBER(inline_bytes), NULL, 0, 65535, "bytes"},
	{"signal_every", KIND_NUMBER, MEMBER(signal_every), NULL, 1, 65535, "sends"},
	{"gid_index", KIND_NUMBER, MEMBER(gid_index), NULL, 0, 65535, "an index of a GID table"},
	{"port", KIND_NUMBER, MEMBER(port), NULL, 1, 65535, "a UDP port"},
	{"peer_timeout_ms", KIND_NUMBER, MEMBER(peer_timeout_ms), NULL, 100, 3600000,
	 "milliseconds"},
	{"resolve_timeout_ms", KIND_NUMBER, MEMBER(resolve_timeout_ms), NULL, 10, 3600000,
	 "milliseconds"},
	{"key_file", KIND_PATH, MEMBER(key_file), NULL, 0, 0, NULL},
	{"zookeeper_timeout_ms", KIND_NUMBER, MEMBER(zookeeper_timeout_ms), NULL, 500, 3600000,
	 "milliseconds"},
	{"zookeeper_auth_file", KIND_PATH, MEMBER(zookeeper_auth_file), NULL, 0, 0, NULL},
	{"shm_dir", KIND_PATH, MEMBER(shm_dir), NULL, 0, 0, NULL},
	{"pcie_device", KIND_PATH, MEMBER(pcie_device), NULL, 0, 0, NULL},
	{"handover", KIND_CHOICE, MEMBER(mapped_mode), "on,off,strict", 0, 0, NULL},
	{"service_window", KIND_NUMBER, MEMBER(service_window), NULL, 65536, 1u << 30, "bytes"},
	{"pool_bytes", KIND_NUMBER, MEMBER(pool_bytes), NULL, 0, 1ull << 46, "bytes"},
	{"log", KIND_CHOICE, MEMBER(log_level), "error,warn,info,debug", 0, 0, NULL},
};

int ripc__list_index(const char *list, const char *name)
{
	size_t len = strlen(name);
	int index = 0;

	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == len && !strncmp(list, name, n))
			return index;
		list += n;
		if (*list == ',')
			list++;
		index++;
	}
	return -1;
}

static void set_value(struct ripc__options *opt, const struct setting *s, uint64_t v)
{
	uint16_t two = (uint16_t)v;
	uint32_t four = (uint32_t)v;
	const void *from = s->size == 2 ? (void *)&two : s->size == 4 ? (void *)&four : &v;

	memcpy((char *)opt + s->offset, from, s->size);
}

/*
 * Whether an interface of this name exists. Return: 0, -ENODEV, or the error of the query, which
 * if_nametoindex() loses.
 */
static int interface_find(const char *name)
{
	struct ifreq ifr = {0};
	int fd, rc;

	if (strlen(name) >= sizeof(ifr.ifr_name))
		return -ENODEV;
	strcpy(ifr.ifr_name, name);
	fd = ripc__host_socket();
	if (fd < 0)
		return fd;
	rc = ioctl(fd, SIOCGIFINDEX, &ifr) ? -errno : 0;
	close(fd);
	return rc;
}

/* Every word of a comma-separated list must be an allowed word, or name an interface. */
static int check_list(const struct setting *s, const char *at, const char *origin, char *why,
		      size_t whylen)
{
	char word[64];

	do {
		size_t len = strcspn(at, ",");
		int rc;

		if (!len || len >= sizeof(word))
			return ripc__reason(
				-EINVAL, why, whylen,
				"%s: has an empty or overlong word; leave it out for the default",
				origin);
		memcpy(word, at, len);
		word[len] = 0;
		if (s->kind == KIND_LIST && ripc__list_index(s->choices, word) < 0)
			return ripc__reason(-EINVAL, why, whylen,
					    "%s: there is no %s; allowed are %s", origin, word,
					    s->unit);
		rc = s->kind == KIND_INTERFACES ? interface_find(word) : 0;
		if (rc == -ENODEV)
			return ripc__reason(-EINVAL, why, whylen,
					    "%s: this host has no network interface %s", origin,
					    word);
		if (rc)
			return ripc__reason(rc, why, whylen, "%s: cannot look for interface %s: %s",
					    origin, word, strerror(-rc));
		at += len;
	} while (*at++);
	return 0;
}

/* @origin: the setting as the user wrote it, RIPC_WAIT=x or wait=x. */
static int set(struct ripc__options *opt, const struct setting *s, const char *value,
	       const char *origin, char *why, size_t whylen)
{
	unsigned long long v;
	char phrase[256], *end;
	int index, rc;

	if (s->kind < KIND_PATH && strlen(value) >= s->size)
		return ripc__reason(-EINVAL, why, whylen, "%s: longer than %zu bytes", origin,
				    s->size - 1);
	switch (s->kind) {
	case KIND_LIST:
	case KIND_INTERFACES:
		rc = check_list(s, value, origin, why, whylen);
		if (rc)
			return rc;
		break;
	case KIND_CHAIN:
		if (ripc__chain_check(value, phrase, sizeof(phrase)))
			return ripc__reason(-EINVAL, why, whylen, "%s: %s", origin, phrase);
		break;
	case KIND_PATH:
		if (*value != '/' || strlen(value) >= s->size)
			return ripc__reason(-EINVAL, why, whylen,
					    "%s: must be an absolute path of at most %zu bytes",
					    origin, s->size - 1);
		break;
	case KIND_CHOICE:
		index = *value ? ripc__list_index(s->choices, value) : -1;
		if (index < 0)
			return ripc__reason(-EINVAL, why, whylen, "%s: must be one of %s", origin,
					    s->choices);
		set_value(opt, s, (unsigned)index);
		return 0;
	case KIND_NUMBER:
		errno = 0;
		v = strtoull(value, &end, 10);
		if (!isdigit((unsigned char)*value) || *end || errno || v < s->min || v > s->max)
			return ripc__reason(-EINVAL, why, whylen,
					    "%s: must be %s from %llu to %llu", origin, s->unit,
					    s->min, s->max);
		set_value(opt, s, v);
		return 0;
	}
	strcpy((char *)opt + s->offset, value);
	return 0;
}

/* @upper: compares in capital letters, as in the environment. */
static const struct setting *find(const char *name, size_t len, bool upper)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const char *have = settings[i].name;
		size_t k;

		if (strlen(have) != len)
			continue;
		for (k = 0; k < len; k++)
			if ((upper ? toupper((unsigned char)have[k]) : have[k]) != name[k])
				break;
		if (k == len)
			return &settings[i];
	}
	return NULL;
}

#define ORIGIN_MAX 160 /* bytes of a setting in an error, so that the reason has room, too */

static int load_environment(struct ripc__options *opt, char *why, size_t whylen)
{
	char origin[ORIGIN_MAX];

	for (char **e = environ; e && *e; e++) {
		const char *equals = strchr(*e, '=');
		const struct setting *s;
		int rc;

		if (strncmp(*e, "RIPC_", 5) || !equals)
			continue;
		/* Variables of the test programs and of the lab are not settings of a context. */
		if (!strncmp(*e, "RIPC_TEST_", 10) || !strncmp(*e, "RIPC_LAB_", 9))
			continue;
		ripc__append(origin, sizeof(origin), 0, "%s", *e);
		s = find(*e + 5, (size_t)(equals - *e) - 5, true);
		if (!s)
			return ripc__reason(-EINVAL, why, whylen,
					    "environment variable %s: no such setting, see ripc(7)",
					    origin);
		rc = set(opt, s, equals + 1, origin, why, whylen);
		if (rc)
			return rc;
	}
	return 0;
}

static int load_text(struct ripc__options *opt, const char *text, char *why, size_t whylen)
{
	char word[512], origin[ORIGIN_MAX];

	while (*(text += strspn(text, " \t\n"))) {
		size_t len = strcspn(text, " \t\n");
		const struct setting *s;
		char *equals;
		int rc;

		if (len >= sizeof(word))
			return ripc__reason(-EINVAL, why, whylen, "option of %zu bytes: too long",
					    len);
		memcpy(word, text, len);
		word[len] = 0;
		text += len;
		ripc__append(origin, sizeof(origin), 0, "%s", word);
		equals = strchr(word, '=');
		if (!equals)
			return ripc__reason(-EINVAL, why, whylen, "option %s: must be key=value",
					    origin);
		s = find(word, (size_t)(equals - word), false);
		if (!s)
			return ripc__reason(-EINVAL, why, whylen,
					    "option %s: no such setting, see ripc(7)", origin);
		rc = set(opt, s, equals + 1, origin, why, whylen);
		if (rc)
			return rc;
	}
	return 0;
}

int ripc__options_load(struct ripc__options *opt, const char *text, char *why, size_t whylen)
{
	int rc;

	memset(opt, 0, sizeof(*opt));
	strcpy(opt->transports, "auto");
	strcpy(opt->resolver, "local,udp");
	opt->port = 7475;
	opt->peer_timeout_ms = 2000;
	opt->resolve_timeout_ms = 1000;
	opt->zookeeper_timeout_ms = 4000;
	opt->service_window = 256 * 1024;
	opt->pool_bytes = 256ull << 20;
	opt->log_level = -1;
	opt->gid_index = RIPC__GID_INDEX_AUTO;
	opt->inline_bytes = RIPC__INLINE_AUTO;
	/* The user who starts a set-user-ID program may not choose the files that it opens. */
	rc = getauxval(AT_SECURE) ? 0 : load_environment(opt, why, whylen);
	if (!rc && text)
		rc = load_text(opt, text, why, whylen);
	/* Datagrams with messages have no room for an authentication code. */
	if (!rc && *opt->key_file && opt->shorts == RIPC__SHORT_UDP)
		return ripc__reason(
			-EINVAL, why, whylen,
			"key_file=%s and short=udp: messages by UDP cannot be authenticated",
			opt->key_file);
	return rc;
}
