/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The main program of a fuzz target in a build without libFuzzer: runs every file of the target's
 * corpus once, each in a process of its own, so that the corpus is a regression test under every
 * compiler and sanitizer.
 *
 * usage: fuzz_NAME [FILE...]   (default: the files of $srcdir/tests/fuzz/corpus/NAME)
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	INPUT_MAX = 64 << 20, /* bytes; the corpus is far below */
	INPUT_SECONDS = 60,   /* one that takes longer hangs, even under a sanitizer */
};

/*
 * Return: the file in memory of exactly its size, so that a sanitizer sees a read beyond it; or
 * NULL.
 */
static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	uint8_t *data;

	if (!file)
		return NULL;
	if (fstat(fileno(file), &st) || !S_ISREG(st.st_mode) || st.st_size > INPUT_MAX) {
		fclose(file);
		return NULL;
	}
	*size = (size_t)st.st_size;
	data = malloc(*size ? *size : 1);
	if (data && fread(data, 1, *size, file) != *size) {
		free(data);
		data = NULL;
	}
	fclose(file);
	return data;
}

static bool replay(const char *path)
{
	size_t size;
	uint8_t *data = read_file(path, &size);
	int status;
	pid_t pid;

	if (!data) {
		printf("%s: cannot be read: %s\n", path, strerror(errno));
		return false;
	}
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		printf("%s: fork: %s\n", path, strerror(errno));
		free(data);
		return false;
	}
	if (!pid) {
		alarm(INPUT_SECONDS);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
		exit(0);
	}
	free(data);
	if (waitpid(pid, &status, 0) != pid)
		return false;
	if (WIFSIGNALED(status))
		printf("%s: signal %d (%s)\n", path, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		printf("%s: exit code %d\n", path, WEXITSTATUS(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static int replay_directory(const char *dir, unsigned *passed, unsigned *failed)
{
	struct dirent **list;
	int n = scandir(dir, &list, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char path[4096 + sizeof(list[i]->d_name)];

		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		if (list[i]->d_name[0] != '.')
			replay(path) ? (*passed)++ : (*failed)++;
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return n;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	const char *srcdir = getenv("srcdir");
	unsigned passed = 0, failed = 0;
	char dir[4096];

	for (int i = 1; i < argc; i++)
		replay(argv[i]) ? passed++ : failed++;
	snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".",
		 strncmp(name, "fuzz_", 5) ? name : name + 5);
	if (argc == 1 && replay_directory(dir, &passed, &failed) < 0)
		printf("%s: %s\n", dir, strerror(errno));
	if (!passed && !failed) {
		printf("%s: no input\n", dir);
		failed = 1;
	}
	printf("%s: %u passed, %u failed, 0 skipped\n", name, passed, failed);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
