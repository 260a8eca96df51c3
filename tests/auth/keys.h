/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Key files for tests. */
#ifndef RIPC_TESTS_AUTH_KEYS_H
#define RIPC_TESTS_AUTH_KEYS_H

#include "harness.h"

#include "auth/key.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define KEY_B "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n"
#define KEY_C "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"

static char key_dir[64], key_path[96];

static inline void keys_setup(void)
{
	strcpy(key_dir, "/tmp/ripc-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(key_dir));
	snprintf(key_path, sizeof(key_path), "%s/key", key_dir);
}

static inline void keys_teardown(void)
{
	unlink(key_path);
	ck_assert_int_eq(rmdir(key_dir), 0);
}

static inline void keys_write(const char *text)
{
	FILE *file;

	unlink(key_path);
	file = fopen(key_path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fchmod(fileno(file), 0600), 0);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

/* A context's keys: of the text given, with an instance id that begins with this byte. */
static inline struct ripc__auth *keys_open(const char *text, uint8_t first)
{
	uint8_t instance[16] = {first, 1};
	struct ripc__auth *a = NULL;

	keys_write(text);
	ck_assert_msg(!ripc__auth_open(&a, key_path, instance), "%s", ripc_error_detail());
	return a;
}

#endif
