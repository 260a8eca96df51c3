/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Settings: their valid and invalid values, their sources, and the name in the error text. */
#include "config.h"
#include "base/options.h"
#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ripc__options opt;
static char why[512];

static int load(const char *text)
{
	memset(&opt, 0xee, sizeof(opt));
	memset(why, 0, sizeof(why));
	return ripc__options_load(&opt, text, why, sizeof(why));
}

static void refused(const char *text, const char *named, const char *allowed)
{
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_msg(strstr(why, named) != NULL, "\"%s\" does not name %s", why, named);
	ck_assert_msg(strstr(why, allowed) != NULL, "\"%s\" does not contain %s", why, allowed);
}

START_TEST(list_index__position)
{
	ck_assert_int_eq(ripc__list_index("a,bb,c", "a"), 0);
	ck_assert_int_eq(ripc__list_index("a,bb,c", "bb"), 1);
	ck_assert_int_eq(ripc__list_index("a,bb,c", "c"), 2);
	ck_assert_int_eq(ripc__list_index("a,bb,c", "b"), -1);
	ck_assert_int_eq(ripc__list_index("a,bb,c", "bbb"), -1);
	ck_assert_int_eq(ripc__list_index("a,bb,c", "a,bb"), -1);
	ck_assert_int_eq(ripc__list_index("", "a"), -1);
	ck_assert_int_eq(ripc__list_index("a,,b", "b"), 2);
}
END_TEST

START_TEST(load__defaults)
{
	unsetenv("RIPC_INTERFACES");
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(load(i == 0 ? NULL : i == 1 ? "" : " \t\n "), 0);
		ck_assert_str_eq(opt.transports, "auto");
		ck_assert_str_eq(opt.resolver, "local,udp");
		ck_assert_str_eq(opt.interfaces, "");
		ck_assert_int_eq(opt.wait, RIPC__WAIT_ADAPTIVE);
		ck_assert_int_eq(opt.crc, RIPC__CRC_AUTO);
		ck_assert_int_eq(opt.shorts, RIPC__SHORT_AUTO);
		ck_assert_int_eq(opt.ib_qp, RIPC__IB_QP_RC);
		ck_assert_int_eq(opt.path_mtu, RIPC__PATH_MTU_AUTO);
		ck_assert_uint_eq(opt.inline_bytes, RIPC__INLINE_AUTO);
		ck_assert_uint_eq(opt.signal_every, 0);
		ck_assert_uint_eq(opt.gid_index, RIPC__GID_INDEX_AUTO);
		ck_assert_uint_eq(opt.port, 7475);
		ck_assert_uint_eq(opt.peer_timeout_ms, 2000);
		ck_assert_uint_eq(opt.resolve_timeout_ms, 1000);
		ck_assert_uint_eq(opt.service_window, 256 * 1024);
		ck_assert_uint_eq(opt.pool_bytes, 256u << 20);
		ck_assert_int_eq(opt.log_level, -1);
	}
}
END_TEST

START_TEST(load__choices)
{
	int rc;

	ck_assert_int_eq(load("wait=poll crc=on short=udp log=error"), 0);
	ck_assert_int_eq(opt.wait, RIPC__WAIT_POLL);
	ck_assert_int_eq(opt.crc, RIPC__CRC_ON);
	ck_assert_int_eq(opt.shorts, RIPC__SHORT_UDP);
	ck_assert_int_eq(opt.log_level, 0);
	ck_assert_int_eq(load("wait=block crc=off short=rdma log=debug"), 0);
	ck_assert_int_eq(opt.wait, RIPC__WAIT_BLOCK);
	ck_assert_int_eq(opt.crc, RIPC__CRC_OFF);
	ck_assert_int_eq(opt.shorts, RIPC__SHORT_RDMA);
	ck_assert_int_eq(opt.log_level, 3);
	rc = load("wait=adaptive crc=auto short=auto ib_qp=uc gid_index=3 log=warn");
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(opt.shorts, RIPC__SHORT_AUTO);
	ck_assert_int_eq(opt.ib_qp, RIPC__IB_QP_UC);
	ck_assert_uint_eq(opt.gid_index, 3);
	ck_assert_int_eq(opt.log_level, 1);
	ck_assert_int_eq(load("path_mtu=4096 inline=0 signal_every=1"), 0);
	ck_assert_int_eq(opt.path_mtu, RIPC__PATH_MTU_4096);
	ck_assert_uint_eq(opt.inline_bytes, 0);
	ck_assert_uint_eq(opt.signal_every, 1);
	ck_assert_int_eq(load("log=info"), 0);
	ck_assert_int_eq(opt.log_level, 2);
}
END_TEST

START_TEST(load__choices_refused)
{
	refused("wait=busy", "wait=busy", "adaptive,poll,block");
	refused("wait=", "wait=", "adaptive,poll,block");
	refused("wait=POLL", "wait=POLL", "adaptive,poll,block");
	refused("wait=poll,block", "wait=poll,block", "adaptive,poll,block");
	refused("crc=yes", "crc=yes", "auto,on,off");
	refused("short=tcp", "short=tcp", "rdma,udp");
	refused("log=loud", "log=loud", "error,warn,info,debug");
	refused("log=1", "log=1", "error,warn,info,debug");
}
END_TEST

static const struct number {
	const char *name;
	unsigned long long min, max;
	size_t offset, size;
} numbers[] = {
#define NUMBER(m, min, max)                                                    \
	{                                                                      \
#m, min, max, offsetof(struct ripc__options, m), sizeof(opt.m) \
	}
	NUMBER(port, 1, 65535),
	NUMBER(peer_timeout_ms, 100, 3600000),
	NUMBER(resolve_timeout_ms, 10, 3600000),
	NUMBER(service_window, 65536, 1u << 30),
	NUMBER(pool_bytes, 0, 1ull << 46),
};

#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

START_TEST(load__numbers)
{
	const struct number *n = &numbers[_i];

	for (int k = 0; k < 3; k++) {
		unsigned long long v = k == 0   ? n->min
				       : k == 1 ? n->max
						: n->min + (n->max - n->min) / 2,
				   got = 0;
		char text[100];

		snprintf(text, sizeof(text), "%s=%llu", n->name, v);
		ck_assert_int_eq(load(text), 0);
		memcpy(&got, (char *)&opt + n->offset, n->size);
		ck_assert_uint_eq(got, v);
	}
}
END_TEST

START_TEST(load__numbers_refused)
{
	static const char *const nonsense[] = {"",    "x",
					       "-1",  "+5",
					       " 5",  "1.5",
					       "5x",  "0x100",
					       "1e3", "5 ",
					       "1,2", "18446744073709551616",
					       "nan", "99999999999999999999999"};
	const struct number *n = &numbers[_i];
	char text[100], limit[32];

	snprintf(limit, sizeof(limit), "%llu", n->max);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		/* Blanks end a setting: what is left is empty, or right. */
		if (strchr(nonsense[i], ' '))
			continue;
		snprintf(text, sizeof(text), "%s=%s", n->name, nonsense[i]);
		refused(text, text, limit);
	}
	snprintf(text, sizeof(text), "%s=%llu", n->name, n->max + 1);
	refused(text, text, limit);
	if (n->min) {
		snprintf(text, sizeof(text), "%s=%llu", n->name, n->min - 1);
		refused(text, text, limit);
	}
}
END_TEST

START_TEST(load__lists)
{
	ck_assert_int_eq(load("transports=iwarp/soft,self resolver=udp interfaces=lo"), 0);
	ck_assert_str_eq(opt.transports, "iwarp/soft,self");
	ck_assert_str_eq(opt.resolver, "udp");
	ck_assert_str_eq(opt.interfaces, "lo");
	ck_assert_int_eq(load("resolver=udp,local"), 0);
	ck_assert_str_eq(opt.resolver, "udp,local");
}
END_TEST

START_TEST(load__lists_refused)
{
	char text[400];

	refused("transports=tcp", "tcp", "iwarp/soft");
	refused("transports=self,iwarp/sof", "iwarp/sof", "iwarp/soft");
	refused("resolver=dns", "dns", "local, udp");
	refused("resolver=local,local", "resolver=local,local", "twice");
	refused("resolver=file", "resolver=file", "absolute path");
	refused("resolver=local,,udp", "resolver=local,,udp", "empty");
	refused("resolver=", "resolver=", "empty");
	refused("resolver=local,", "resolver=local,", "empty");
	refused("resolver=,local", "resolver=,local", "empty");
	refused("interfaces=nosuchdevice0", "nosuchdevice0", "no network interface");
	refused("interfaces=lo,nosuchdevice0", "nosuchdevice0", "no network interface");
	refused("interfaces=", "interfaces=", "empty");
	snprintf(text, sizeof(text), "interfaces=%0300d", 0);
	refused(text, "interfaces=", "longer than 255 bytes");
	snprintf(text, sizeof(text), "interfaces=%0100d", 0);
	refused(text, "interfaces=", "overlong");
}
END_TEST

/* That the question could not be asked is no answer to it. */
START_TEST(load__interfaces_out_of_descriptors)
{
	struct rlimit old, limit;
	int rc;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	limit.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	rc = ripc__options_load(&opt, "interfaces=lo", why, sizeof(why));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	ck_assert_int_eq(rc, -EMFILE);
	ck_assert_ptr_nonnull(strstr(why, strerror(EMFILE)));
	ck_assert_ptr_nonnull(strstr(why, "interface lo"));
}
END_TEST

/* A sandbox without Unix sockets. */
START_TEST(load__interfaces_without_unix_sockets)
{
	if (!test_refuse(SYS_socket, AF_UNIX, EAFNOSUPPORT)) {
		test_skip("no system call can be refused here: %s", strerror(errno));
		return;
	}
	ck_assert_msg(!load("interfaces=lo"), "%s", why);
	refused("interfaces=nonsense0", "nonsense0", "no network interface");
}
END_TEST

START_TEST(load__text_refused)
{
	char text[2000];

	refused("wiat=poll", "wiat=poll", "no such setting");
	refused("WAIT=poll", "WAIT=poll", "no such setting");
	refused("=poll", "=poll", "no such setting");
	refused("wai=poll", "wai=poll", "no such setting");
	refused("waitt=poll", "waitt=poll", "no such setting");
	refused("wait", "wait", "key=value");
	refused("port=7000 nonsense", "nonsense", "key=value");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	refused(text, "1999 bytes", "too long");
}
END_TEST

START_TEST(load__last_one_wins)
{
	ck_assert_int_eq(load("port=7000\tport=7001\n  port=7002  "), 0);
	ck_assert_uint_eq(opt.port, 7002);
}
END_TEST

START_TEST(load__environment)
{
	setenv("RIPC_WAIT", "block", 1);
	setenv("RIPC_PORT", "4000", 1);
	setenv("RIPC_PEER_TIMEOUT_MS", "500", 1);
	setenv("RIPC_TEST_WHATEVER", "is not for us", 1);
	setenv("RIPCX", "nor is this", 1);
	ck_assert_int_eq(load(NULL), 0);
	ck_assert_int_eq(opt.wait, RIPC__WAIT_BLOCK);
	ck_assert_uint_eq(opt.port, 4000);
	ck_assert_uint_eq(opt.peer_timeout_ms, 500);
	ck_assert_str_eq(opt.interfaces, "lo");
	/* Options of the call have precedence. */
	ck_assert_int_eq(load("port=4001"), 0);
	ck_assert_uint_eq(opt.port, 4001);
	ck_assert_uint_eq(opt.peer_timeout_ms, 500);
}
END_TEST

START_TEST(load__environment_refused)
{
	setenv("RIPC_WIAT", "poll", 1);
	refused(NULL, "RIPC_WIAT=poll", "no such setting");
	unsetenv("RIPC_WIAT");
	setenv("RIPC_wait", "poll", 1);
	refused(NULL, "RIPC_wait=poll", "no such setting");
	unsetenv("RIPC_wait");
	setenv("RIPC_", "poll", 1);
	refused(NULL, "RIPC_=poll", "no such setting");
	unsetenv("RIPC_");
	setenv("RIPC_PORT", "many", 1);
	refused(NULL, "RIPC_PORT=many", "from 1 to 65535");
	/* Nonsense stays nonsense although the text would replace it. */
	refused("port=7000", "RIPC_PORT=many", "from 1 to 65535");
	setenv("RIPC_PORT", "", 1);
	refused(NULL, "RIPC_PORT=", "from 1 to 65535");
}
END_TEST

START_TEST(load__error_is_truncated)
{
	char small[16];

	memset(small, 'z', sizeof(small));
	ck_assert_int_eq(ripc__options_load(&opt, "wait=nonsense", small, sizeof(small)), -EINVAL);
	ck_assert_uint_eq(strnlen(small, sizeof(small)), sizeof(small) - 1);
}
END_TEST

/* A long value does not take the place of the reason. */
START_TEST(load__long_value)
{
	char value[1000], text[600];

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	setenv("RIPC_KEY_FILE", value, 1);
	refused(NULL, "RIPC_KEY_FILE=vvv", "absolute path");
	unsetenv("RIPC_KEY_FILE");
	snprintf(text, sizeof(text), "wait=%.490s", value);
	refused(text, "wait=vvv", "adaptive,poll,block");
	snprintf(text, sizeof(text), "%.490s=1", value);
	refused(text, "vvv", "no such setting");
	setenv("RIPC_NONSENSE", value, 1);
	refused(NULL, "RIPC_NONSENSE=vvv", "no such setting");
}
END_TEST

/* ---- files that settings name ---- */

static char dir[] = "/tmp/ripc-options-XXXXXX";

/* Root sees no missing right: another user opens. */
static int open_as_other_user(const char *options)
{
	struct ripc *ctx;
	bool root = !geteuid();
	int rc;

	ck_assert(!root || !seteuid(65534));
	rc = ripc_open(&ctx, options);
	if (!rc)
		ripc_close(ctx);
	ck_assert(!root || !seteuid(0));
	return rc;
}

/* _i: the setting. For a missing and for an unreadable file ripc.h specifies the error. */
START_TEST(open__a_file_that_a_setting_names)
{
	static const char *const settings[] = {"resolver=file:%s", "resolver=local,file:%s",
					       "key_file=%s",      "zookeeper_auth_file=%s",
					       "shm_dir=%s",       "pcie_device=%s"};
	char path[100], text[200];

#ifndef HAVE_SODIUM
	if (strstr(settings[_i], "key_file")) {
		test_skip("key_file: this build has no libsodium");
		return;
	}
#endif
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	snprintf(path, sizeof(path), "%s/nothing", dir);
	snprintf(text, sizeof(text), settings[_i], path);
	ck_assert_msg(open_as_other_user(text) == -ENOENT, "%s: %s", text, ripc_error_detail());
	ck_assert_msg(strstr(ripc_error_detail(), path), "%s", ripc_error_detail());
	/* A file or a directory, as it should be, but for another. */
	snprintf(path, sizeof(path), "%s/closed", dir);
	if (strstr(settings[_i], "shm_dir"))
		ck_assert_int_eq(mkdir(path, 0), 0);
	else
		close(creat(path, 0));
	snprintf(text, sizeof(text), settings[_i], path);
	ck_assert_msg(open_as_other_user(text) == -EACCES, "%s: %s", text, ripc_error_detail());
	ck_assert_msg(strstr(ripc_error_detail(), path), "%s", ripc_error_detail());
	/* Nothing is below a file. */
	snprintf(path, sizeof(path), "%s/file", dir);
	close(creat(path, 0644));
	strcat(path, "/below");
	snprintf(text, sizeof(text), settings[_i], path);
	ck_assert_msg(open_as_other_user(text) == -ENOENT, "%s: %s", text, ripc_error_detail());
	snprintf(text, sizeof(text), "rm -r %s", dir);
	ck_assert_int_eq(system(text), 0);
}
END_TEST

#define SECURE "--secure" /* main(): load the settings in a process that the kernel marks so */

/* Return: the exit code of main(): whether the environment is ignored, and the string is used. */
static int load_secure(void)
{
	if (!getauxval(AT_SECURE))
		return 77;
	return load("wait=poll") || opt.wait != RIPC__WAIT_POLL || *opt.pcie_device;
}

START_TEST(load__set_group_id_program)
{
	char program[64], text[100];
	int status;
	pid_t pid;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	snprintf(program, sizeof(program), "%s/program", dir);
	snprintf(text, sizeof(text), "cp /proc/%d/exe %s", getpid(), program);
	ck_assert_int_eq(system(text), 0);
	if (chown(program, (uid_t)-1, 65534)) {
		test_skip("a file cannot be given to another group: %s", strerror(errno));
	} else {
		ck_assert_int_eq(chmod(program, 02755), 0);
		setenv("RIPC_PCIE_DEVICE", "/etc/passwd", 1);
		setenv("RIPC_NONSENSE", "1", 1);
		pid = fork();
		if (!pid) {
			execl(program, program, SECURE, NULL);
			_exit(127);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			test_skip("%s is mounted with nosuid", dir);
		else
			ck_assert_int_eq(status, 0);
	}
	snprintf(text, sizeof(text), "rm -r %s", dir);
	ck_assert_int_eq(system(text), 0);
}
END_TEST

static void setup(void)
{
	setenv("RIPC_INTERFACES", "lo", 1);
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create("base/options");
	TCase *tc = tcase_create("options");

	if (argc > 1 && !strcmp(argv[1], SECURE))
		_exit(load_secure());
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, list_index__position);
	tcase_add_test(tc, load__defaults);
	tcase_add_test(tc, load__choices);
	tcase_add_test(tc, load__choices_refused);
	tcase_add_loop_test(tc, load__numbers, 0, NUMBERS);
	tcase_add_loop_test(tc, load__numbers_refused, 0, NUMBERS);
	tcase_add_test(tc, load__lists);
	tcase_add_test(tc, load__lists_refused);
	tcase_add_test(tc, load__interfaces_out_of_descriptors);
	tcase_add_test(tc, load__interfaces_without_unix_sockets);
	tcase_add_test(tc, load__text_refused);
	tcase_add_test(tc, load__last_one_wins);
	tcase_add_test(tc, load__environment);
	tcase_add_test(tc, load__environment_refused);
	tcase_add_test(tc, load__set_group_id_program);
	tcase_add_test(tc, load__error_is_truncated);
	tcase_add_test(tc, load__long_value);
	suite_add_tcase(suite, tc);
	tc = tcase_create("files");
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_loop_test(tc, open__a_file_that_a_setting_names, 0, 6);
	suite_add_tcase(suite, tc);
	return test_main("base/options", suite);
}
