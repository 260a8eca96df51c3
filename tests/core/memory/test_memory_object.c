/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory objects: their descriptors are kept while there is room, found again, and closed. */
#define _GNU_SOURCE
#include "core/rig.h"

#include "core/memory/memory_object.h"
#include "core/memory/buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct rig rig;
static struct ripc *ctx;

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* A region that stands for an object of a peer, without memory. */
static struct ripc__region *import(void)
{
	struct ripc__region *r = ripc__regions_new(ctx);

	ck_assert_ptr_nonnull(r);
	r->state = RIPC__REGION_IMPORTED;
	return r;
}

static int foreign(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static void end(struct ripc__region *r)
{
	ripc__memory_object_close(ctx, r);
	ck_assert_int_lt(r->fd, 0);
	free(r);
}

START_TEST(keep__bounded)
{
	struct ripc__region *r[RIPC__IMPORT_FDS_MAX], *more = import();
	int fd, last = foreign();

	for (unsigned i = 0; i < RIPC__IMPORT_FDS_MAX; i++) {
		r[i] = import();
		fd = foreign();
		ck_assert(ripc__memory_object_keep(ctx, r[i], fd));
		ck_assert_int_eq(r[i]->fd, fd);
	}
	/* The caller's again. */
	ck_assert(!ripc__memory_object_keep(ctx, more, last));
	ck_assert_int_lt(more->fd, 0);
	ck_assert(is_open(last));
	/* Objects of this context have room of their own. */
	ck_assert(ripc__memory_object_room(ctx));
	fd = r[5]->fd;
	ripc__memory_object_close(ctx, r[5]);
	ck_assert(!is_open(fd));
	/* It has none any more. */
	ripc__memory_object_close(ctx, r[5]);
	ck_assert(ripc__memory_object_keep(ctx, more, last));
	end(more);
	ck_assert(!is_open(last));
	for (unsigned i = 0; i < RIPC__IMPORT_FDS_MAX; i++)
		end(r[i]);
}
END_TEST

/* An import may be a buffer of this context that a peer has sent back. */
START_TEST(own__returned_buffer)
{
	struct ripc__region *buffer[3], *back = import(), *other = import();

	for (unsigned i = 0; i < 3; i++)
		buffer[i] = ripc__memory_find(ctx, ripc_buf_alloc(ctx, 64 * KIB), 1);
	ck_assert_int_ge(buffer[1]->fd, 0);
	ck_assert(ripc__memory_object_keep(ctx, back, dup(buffer[1]->fd)));
	ck_assert(ripc__memory_object_keep(ctx, other, foreign()));
	ck_assert_ptr_eq(ripc__memory_object_own(ctx, back), buffer[1]);
	ck_assert_ptr_null(ripc__memory_object_own(ctx, other));
	/* Its memory moves to another region, as when it grows. */
	ripc__memory_object_close(ctx, buffer[0]);
	ripc__memory_object_move(buffer[1], buffer[0]);
	ck_assert_int_lt(buffer[1]->fd, 0);
	ck_assert_ptr_eq(ripc__memory_object_own(ctx, back), buffer[0]);
	ripc__memory_object_close(ctx, buffer[0]);
	ck_assert_ptr_null(ripc__memory_object_own(ctx, back));
	end(back);
	end(other);
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 1, NULL);
	ctx = rig.ctx[0];
	ctx->memory->can_export = true;
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/memory_object");
	TCase *tc = tcase_create("memory_object");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, keep__bounded);
	tcase_add_test(tc, own__returned_buffer);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/memory_object", suite);
}
