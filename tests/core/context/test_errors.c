/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The errors that ripc.h documents for all functions: each is called with valid arguments, and with
 * one that is not. A call that is refused changes nothing and explains itself.
 */
#include "core/context/functions.h"

#include <limits.h>

static bool is(const struct function *f, const char *name)
{
	return !strcmp(f->name, name);
}

/* The call returns want, with a reason if that is an error. */
static void expect(const struct function *f, int want, const char *with)
{
	int rc;

	ripc__fail(0, "%s", "");
	rc = f->call();
	ck_assert_msg(rc == want, "%s, %s: %d (%s) instead of %d: %s", f->name, with, rc,
		      ripc_strerror(rc), want, ripc_error_detail());
	ck_assert_msg(!rc || ripc_error_detail()[0], "%s, %s: no detail", f->name, with);
}

/* The same, and nothing has changed. */
static void refused(const struct function *f, int want, const char *with)
{
	struct state before = state_of_caller(), after;

	expect(f, want, with);
	after = state_of_caller();
	ck_assert_msg(!memcmp(&before, &after, sizeof(before)),
		      "%s, %s: refused, but it did something", f->name, with);
}

/* A test that does this for each function. */
#define EACH_FUNCTION(name)                         \
	static void name(const struct function *f); \
	START_TEST(errors__##name)                  \
	{                                           \
		for (int i = 0; i < FUNCTIONS; i++) \
			name(&functions[i]);        \
	}                                           \
	END_TEST                                    \
	static void name(const struct function *f)

/* ---- handles ---- */

EACH_FUNCTION(valid_arguments)
{
	open_world(f);
	expect(f, f->rc, "valid");
	close_world();
}

EACH_FUNCTION(null_pointers)
{
	struct ripc_request *none = NULL;
	struct ripc_message *kept[2];

	open_world(f);
	kept[0] = a.message;
	kept[1] = a.question;
	/* NULL stands for the default context, and for no service in particular. */
	if (f->of == SERVICE && !is(f, "window_add_service")) {
		a.s = NULL;
		refused(f, -EINVAL, "no service");
	}
	if (f->of == MESSAGE) {
		a.message = a.question = NULL;
		refused(f, -EINVAL, "no message");
	}
	if (f->of == REQUEST) {
		a.request = a.call = NULL;
		refused(f, -EINVAL, "nowhere to find a request");
		arguments(f);
		a.request = a.call = &none;
		refused(f, -EINVAL, "no request");
	}
	a.message = kept[0];
	a.question = kept[1];
	arguments(f);
	if (f->has & OUT) {
		a.out = NULL;
		refused(f, -EINVAL, "nowhere to store the result");
	}
	arguments(f);
	if (f->has & MEMORY) {
		a.memory = NULL;
		refused(f, -EINVAL, "no memory");
	}
	if (f->has & ITEMS) {
		a.items = NULL;
		refused(f, -EINVAL, "no items");
	}
	arguments(f);
	a.options = NULL;
	if (is(f, "service_list"))
		a.fn = NULL;
	if (is(f, "register_name"))
		a.name = NULL;
	expect(f, a.fn && a.name ? f->rc : -EINVAL, "no options, function or name");
	close_world();
}

/* The default context cannot be opened. */
EACH_FUNCTION(no_default_context)
{
	if (f->of != CONTEXT)
		return;
	open_world(f);
	ck_assert_int_eq(setenv("RIPC_KEY_FILE", "/nonexistent/key", 1), 0);
	a.ctx = NULL;
	refused(f, -ENOENT, "no default context");
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "RIPC_KEY_FILE"));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "/nonexistent/key"));
	ck_assert_int_eq(unsetenv("RIPC_KEY_FILE"), 0);
	RC(-EINVAL, ripc_close(NULL));
	close_world();
}

/* Service or context have ended, or are being closed. */
EACH_FUNCTION(ended_handles)
{
	struct ripc_request **r = is(f, "call_wait") ? &a.pending_call : &a.pending;

	if (f->of == SERVICE) {
		open_world(f);
		OK(ripc_service_unregister(rig.s[0]));
		ck_assert_uint_eq(ripc_service_id(rig.s[0]), 0);
		refused(f, -ESHUTDOWN, "after the end of its service");
		close_world();
	}
	open_world(f);
	rig.ctx[0]->closing = true;
	if (f->of != REQUEST && !is(f, "message_cancelled") && !is(f, "message_detach"))
		refused(f, -ESHUTDOWN, "while the context is being closed");
	rig.ctx[0]->closing = false;
	close_world();
	if (f->of == MESSAGE)
		return;
	open_world(f);
	stop_serving();
	OK(ripc_close(rig.ctx[0]));
	ripc__sim_detach(rig.net, rig.ctx[0]);
	rig.ctx[0] = NULL;
	expect(f, -ESHUTDOWN, "after the end of its context");
	if (f->of == REQUEST)
		ck_assert_ptr_null(*r);
	RC(-EINVAL, ripc_close(a.ctx));
	close_world();
}

/* In a child of fork() every function fails; the parent's objects stay as they are. */
EACH_FUNCTION(child_of_fork)
{

	open_world(f);
	ripc__fork_generation++;
	refused(f, -EOWNERDEAD, "in a child");
	ck_assert_int_eq(ripc_message_deadline(a.question), -1);
	OK(ripc_close(rig.ctx[0]));
	ripc__fork_generation--;
	expect(f, f->rc, "in the parent");
	close_world();
}

/* ---- numbers ---- */

EACH_FUNCTION(ids)
{
	static const uint64_t no_services[] = {0, RIPC_ANY_ID, RIPC__GROUP_BASE,
					       RIPC__GROUP_BASE + GROUP};
	static const uint64_t no_groups[] = {0, RIPC_GROUP_LIMIT, RIPC_ID_LIMIT, UINT64_MAX};
	static const uint64_t not_chosen[] = {0, RIPC_ID_LIMIT, RIPC_ANY_ID - 1};
	struct ripc_service *s;

	open_world(f);
	for (unsigned i = 0; f->has & DEST && i < 4; i++) {
		a.dest = no_services[i];
		refused(f, -EINVAL, "an id of no service");
	}
	for (unsigned i = 0; i < 4; i++) {
		a.group = no_groups[i];
		if (is(f, "group_join") || is(f, "group_leave") || is(f, "group_send"))
			refused(f, -EINVAL, "an id of no group");
		if (is(f, "group_stats"))
			refused(f, -ENOENT, "an id of no group");
	}
	for (unsigned i = 0; is(f, "service_register") && i < 3; i++) {
		a.id = not_chosen[i];
		refused(f, -EINVAL, "an id that cannot be chosen");
	}
	/* An id that RIPC_ANY_ID may draw: nobody has it. */
	arguments(f);
	a.dest = RIPC_ID_LIMIT + 1;
	if (is(f, "send_short") || is(f, "route_lookup") || is(f, "call")) {
		expect(f, -EHOSTUNREACH, "an id that nobody has");
		ck_assert(strstr(ripc_error_detail(), "9223372036854775809") != NULL);
	}
	if (is(f, "route_get") || is(f, "peer_stats") || is(f, "route_limits")) {
		refused(f, -ENOENT, "an id that nobody has");
		ck_assert(strstr(ripc_error_detail(), "9223372036854775809") != NULL);
		OK(ripc_service_register(rig.ctx[1], RIPC_ANY_ID, 0, &s));
		a.dest = ripc_service_id(s);
		OK(ripc_route_lookup(a.ctx, a.dest, NULL, 5000));
		expect(f, 0, "an id that was drawn");
	}
	close_world();
}

EACH_FUNCTION(item_lists)
{
	static const unsigned counts[] = {0, RIPC_ITEMS_MAX + 1, UINT_MAX};
	static const struct iovec bad[] = {{NULL, 1},
					   {NULL, SIZE_MAX},
					   {"x", (size_t)1 << 47},
					   {"x", SIZE_MAX},
					   {(void *)(UINTPTR_MAX - 1), 10 * KIB}};

	if (!(f->has & ITEMS))
		return;
	open_world(f);
	for (unsigned i = 0; i < 3; i++) {
		a.nitems = counts[i];
		refused(f, -EINVAL, "a number of items");
	}
	for (unsigned i = 0; i < 5; i++) {
		a.nitems = 1;
		a.item[0] = bad[i];
		refused(f, -EINVAL, "one bad item");
		a.item[RIPC_ITEMS_MAX - 1] = bad[i];
		a.item[0] = (struct iovec){"x", 1};
		a.nitems = RIPC_ITEMS_MAX;
		refused(f, -EINVAL, "a bad item at the end");
	}
	/* Each is short enough, all together are not. */
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++)
		a.item[i] = (struct iovec){a.bytes, ((size_t)1 << 47) - 1};
	a.nitems = 2;
	refused(f, -EINVAL, "2^48 bytes");
	/* Empty items need no memory, and one that comes twice is sent twice. */
	a.item[0] = a.item[1] = (struct iovec){NULL, 0};
	a.nitems = 2;
	expect(f, f->rc, "empty items");
	close_world();
}

/* Every bit of the flags that a function does not take. */
EACH_FUNCTION(unknown_flags)
{
	if (!f->flags && !(f->has & SEND_OPTIONS))
		return;
	open_world(f);
	for (unsigned bit = 0; bit < 32; bit++) {
		arguments(f);
		a.flags = 1u << bit;
		if (f->has & CALL_OPTIONS)
			a.option.call.flags = a.flags;
		else
			a.option.send.flags = a.flags;
		if (!(f->flags & a.flags))
			refused(f, -EOPNOTSUPP, "an unknown flag");
	}
	close_world();
}

EACH_FUNCTION(option_sizes)
{
	static const size_t bad[] = {0, 1, 8, 65537, SIZE_MAX};
	size_t known;

	if (!(f->has & (SEND_OPTIONS | CALL_OPTIONS)))
		return;
	open_world(f);
	known = a.option.size;
	for (unsigned i = 0; i < 5; i++) {
		a.option.size = bad[i];
		refused(f, -EINVAL, "a size of options");
	}
	a.option.size = known - 1;
	refused(f, -EINVAL, "options that are too small");
	a.option.size = 65536;
	a.option.bytes[65535] = 1;
	refused(f, -EOPNOTSUPP, "options with an unknown member");
	a.option.bytes[65535] = 0;
	a.option.bytes[65536] = 1;
	expect(f, f->rc, "larger options");
	close_world();
}

/* The function fails, or the call that it starts does. */
static void refused_buffers(const struct function *f, int want, const char *with)
{
	unsigned windows = rig.ctx[0]->memory->nrecv_windows;

	if (!(f->has & CALL_OPTIONS))
		refused(f, want, with);
	else
		expect(f, is(f, "call") ? want : 0, with);
	if (is(f, "call_start"))
		RC(want, ripc_call_wait(&a.result.request, NULL, 0));
	ck_assert_msg(strstr(ripc_error_detail(), with), "%s: %s", f->name, ripc_error_detail());
	ck_assert_uint_eq(rig.ctx[0]->memory->return_ids.count, 0);
	ck_assert_uint_eq(rig.ctx[0]->memory->nrecv_windows, windows);
}

/* Return buffers, and buffers for an answer. Nothing of those before the bad one is kept. */
EACH_FUNCTION(bad_buffers)
{
	static uint8_t foreign[100];
	struct ripc_request *sent;
	const struct iovec whole = {a.bytes, 100};
	struct iovec buffers[RIPC_RETURN_BUFFERS_MAX + 1] = {whole};
	const struct {
		int rc;
		struct iovec buffer;
		const char *why;
	} cases[] = {
		{-EINVAL, {foreign, 100}, "not within registered"},
		{-EINVAL, {NULL, 100}, "not within registered"},
		{-EINVAL, {a.bytes + 1000, 101}, "not within registered"},
		{-EINVAL, {a.bytes + 1000, SIZE_MAX}, "not within registered"},
		{-EINVAL, {a.bytes + 1000, 0}, "at least 1"},
		{-EBUSY, {a.bytes + 99, 1}, "overlaps a return buffer"},
		{-EBUSY, {a.bytes + 1000, 1}, "overlaps a window"},
	};

	if (!(f->has & (SEND_OPTIONS | CALL_OPTIONS)))
		return;
	open_world(f);
	if (f->has & CALL_OPTIONS) {
		a.option.call.reply_buffers = buffers;
		a.option.call.nreply_buffers = 2;
	} else {
		a.option.send.return_buffers = buffers;
		a.option.send.nreturn_buffers = 2;
	}
	if (is(f, "group_send") || is(f, "reply_start")) {
		refused(f, -EOPNOTSUPP, "return buffers");
		close_world();
		return;
	}
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buffers[1] = cases[i].buffer;
		refused_buffers(f, cases[i].rc, cases[i].why);
	}
	/* A send reads from it. */
	OK(ripc_send_async(a.s, 4711, &whole, 1, NULL, &sent));
	buffers[1] = whole;
	refused_buffers(f, -EBUSY, "is read by a send to service 4711");
	RC(-ECANCELED, ripc_request_cancel(&sent, 0));
	if (f->has & CALL_OPTIONS) {
		a.option.call.nreply_buffers = RIPC_RETURN_BUFFERS_MAX + 1;
		refused(f, -EINVAL, "too many buffers");
		a.option.call.nreply_buffers = 1;
	} else {
		a.option.send.nreturn_buffers = RIPC_RETURN_BUFFERS_MAX + 1;
		refused(f, -EINVAL, "too many buffers");
		a.option.send.flags = RIPC_RELIABLE;
		a.option.send.nreturn_buffers = 1;
		if (is(f, "send_short"))
			refused(f, -EOPNOTSUPP, "reliable, with a return buffer");
		a.option.send.flags = 0;
	}
	expect(f, f->rc, "a return buffer");
	close_world();
}

/* RIPC_FREE_ITEMS: memory that the library cannot free stays the caller's. */
EACH_FUNCTION(items_to_free)
{
	uint8_t *window;

	if (!(f->flags & RIPC_FREE_ITEMS))
		return;
	open_world(f);
	window = ripc_buf_alloc(a.ctx, 100);
	OK(ripc_window_add(a.ctx, NULL, window + 50, 10));
	a.option.send.flags = RIPC_FREE_ITEMS;
	refused(f, -EINVAL, "constant memory");
	a.item[0] = (struct iovec){a.bytes, 100};
	refused(f, -EINVAL, "registered memory");
	a.item[0] = (struct iovec){window, 10};
	refused(f, -EINVAL, "a buffer with a window");
	OK(ripc_buf_free(a.ctx, window));
	refused(f, -EINVAL, "a buffer that was freed");
	window = ripc_buf_alloc(a.ctx, 100);
	a.item[0] = (struct iovec){window, 101};
	refused(f, -EINVAL, "an item behind its buffer");
	/* With an empty item, and two in one buffer. */
	a.item[0] = (struct iovec){window + 1, 10};
	a.item[1] = (struct iovec){NULL, 0};
	a.item[2] = (struct iovec){window, 20};
	a.nitems = 3;
	expect(f, f->rc, "a buffer");
	rig_run(&rig, 100);
	RC(-EINVAL, ripc_buf_free(a.ctx, window));
	close_world();
}

EACH_FUNCTION(result_sizes)
{
	static const size_t bad[] = {0, 1, 7, 65537, SIZE_MAX};

	if (!(f->has & STRUCT))
		return;
	open_world(f);
	memset(&a.result, 0xee, sizeof(a.result));
	for (unsigned i = 0; i < 5; i++) {
		a.result.size = bad[i];
		refused(f, -EINVAL, "a size of a result");
		for (unsigned k = sizeof(size_t); k < sizeof(a.result.bytes); k++)
			ck_assert_uint_eq(a.result.bytes[k], 0xee);
	}
	a.result.size = 8;
	expect(f, f->rc, "the smallest size");
	ck_assert_uint_eq(a.result.bytes[8], 0xee);
	if (f->rc) {
		close_world();
		return;
	}
	a.result.size = 65536;
	expect(f, f->rc, "the largest size");
	ck_assert_uint_eq(a.result.bytes[65535], 0);
	ck_assert_uint_eq(a.result.bytes[65536], 0xee);
	close_world();
}

EACH_FUNCTION(timeouts)
{
	static const int ends[] = {INT_MAX, -1, INT_MIN};

	for (unsigned i = 0; i < 3 && f->has & TIMEOUT && !(f->has & ENDLESS); i++) {
		open_world(f);
		a.timeout_ms = ends[i];
		expect(f, f->rc, "a long timeout");
		close_world();
	}
	open_world(f);
	if (is(f, "receive"))
		OK(ripc_receive(a.s, a.out, 5000));
	if (is(f, "receive"))
		ripc_message_free(a.result.message);
	a.result.message = NULL;
	arguments(f);
	a.timeout_ms = 0;
	expect(f, f->rc_now, "no time");
	close_world();
}

int main(void)
{
	Suite *suite = suite_create("core/context/errors");
	TCase *tc = tcase_create("errors");

	test_seed();
	tcase_add_test(tc, errors__valid_arguments);
	tcase_add_test(tc, errors__null_pointers);
	tcase_add_test(tc, errors__no_default_context);
	tcase_add_test(tc, errors__ended_handles);
	tcase_add_test(tc, errors__child_of_fork);
	tcase_add_test(tc, errors__ids);
	tcase_add_test(tc, errors__item_lists);
	tcase_add_test(tc, errors__unknown_flags);
	tcase_add_test(tc, errors__option_sizes);
	tcase_add_test(tc, errors__bad_buffers);
	tcase_add_test(tc, errors__items_to_free);
	tcase_add_test(tc, errors__result_sizes);
	tcase_add_test(tc, errors__timeouts);
	suite_add_tcase(suite, tc);
	return test_main("core/context/errors", suite);
}
