/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "transport/pcie/memory.h"
#include "base/hash.h"
#include "base/host.h"
#include "wire/bytes.h"

#include <errno.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3265696370706972) /* "rippcie2" */

/* Header: magic, bytes, id, number of entries and blocks. */
#define HEADER_BYTES 4096u
#define SIZE_OFF     8u
#define ID_OFF       16u
#define COUNT_OFF    32u

/*
 * An entry: its context writes claim, heartbeat, process and doorbell; others write the counter of
 * notifications, in a cache line of its own.
 */
#define ENTRIES_OFF   HEADER_BYTES
#define ENTRY_BYTES   128u
#define CLAIM_OFF     0u
#define HEARTBEAT_OFF 8u
#define KERNEL_OFF    16u
#define PROCESS_OFF   24u
#define DOORBELL_OFF  32u
#define NOTIFY_OFF    64u

/* The table of blocks, a cache line each. */
#define BLOCK_TABLE_OFF   (ENTRIES_OFF + RIPC__PCIE_ENTRIES * ENTRY_BYTES)
#define BLOCK_ENTRY_BYTES 64u
#define OWNER_OFF         0u
#define USER_OFF          8u
#define SETUP_OFF         16u
#define TARGET_OFF        24u
#define ANSWER_OFF        32u

#define TAKEN          UINT64_C(1)      /* of a claim */
#define CLOSED         UINT64_C(0x8000) /* of an owner: it does not use the block any more */
#define CLAIM_RETRIES  10               /* heartbeats to wait for a free entry */
#define CLAIM_RETRY_NS RIPC__PCIE_HEARTBEAT_NS

/* ---- words ---- */

static uint64_t load(const struct ripc__pcie_memory *m, size_t at)
{
	return le64toh(
		__atomic_load_n((const uint64_t *)(const void *)(m->base + at), __ATOMIC_ACQUIRE));
}

static void store(struct ripc__pcie_memory *m, size_t at, uint64_t v)
{
	__atomic_store_n((uint64_t *)(void *)(m->base + at), htole64(v), __ATOMIC_RELEASE);
}

static bool compare_exchange(struct ripc__pcie_memory *m, size_t at, uint64_t from, uint64_t to)
{
	uint64_t expected = htole64(from);

	return __atomic_compare_exchange_n((uint64_t *)(void *)(m->base + at), &expected,
					   htole64(to), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Either the other side sees our store, or we see its store. */
static void full_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void ripc__pcie_fence(const struct ripc__pcie_memory *m)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (!m->write_combining)
		return;
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_sfence();
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* ---- layout ---- */

static size_t blocks_off(uint32_t nblocks)
{
	return (BLOCK_TABLE_OFF + (size_t)nblocks * BLOCK_ENTRY_BYTES + 4095) & ~(size_t)4095;
}

uint32_t ripc__pcie_blocks(size_t size)
{
	size_t n = size / (ripc__pcie_block_size() + BLOCK_ENTRY_BYTES);

	n = MIN(n, RIPC__PCIE_BLOCKS_MAX);
	while (n && blocks_off((uint32_t)n) + n * ripc__pcie_block_size() > size)
		n--;
	return (uint32_t)n;
}

/* A word of a block's entry in the table. */
static size_t block_at(uint32_t block, size_t off)
{
	return BLOCK_TABLE_OFF + (size_t)block * BLOCK_ENTRY_BYTES + off;
}

static size_t block_off(const struct ripc__pcie_memory *m, uint32_t block)
{
	return blocks_off(m->nblocks) + block * ripc__pcie_block_size();
}

static unsigned entry_of(uint64_t ref)
{
	return (ref >> 1) & (RIPC__PCIE_ENTRIES - 1);
}

/* A word of an entry. */
static size_t entry_at(unsigned entry, size_t off)
{
	return ENTRIES_OFF + (size_t)entry * ENTRY_BYTES + off;
}

static bool is_zero(const uint8_t *p, size_t len)
{
	while (len && !*p) {
		p++;
		len--;
	}
	return !len;
}

/* ---- joining ---- */

/* Several contexts may do so at once: the first one writes each word, and the magic last. */
static int format(struct ripc__pcie_memory *m, const char **why)
{
	uint64_t id[2];

	if (!is_zero(m->base, blocks_off(m->nblocks)))
		return -EPROTO;
	if (getrandom(id, sizeof(id), 0) != sizeof(id)) {
		*why = "no random numbers";
		return -EIO;
	}
	compare_exchange(m, ID_OFF, 0, id[0] | 1);
	compare_exchange(m, ID_OFF + 8, 0, id[1] | 1);
	compare_exchange(m, SIZE_OFF, 0, m->size);
	compare_exchange(m, COUNT_OFF, 0, RIPC__PCIE_ENTRIES | (uint64_t)m->nblocks << 32);
	compare_exchange(m, 0, 0, MAGIC);
	return 0;
}

int ripc__pcie_join(struct ripc__pcie_memory *m, uint8_t *base, uint8_t *out, size_t size,
		    bool may_format, const char **why)
{
	int rc = 0;

	*m = (struct ripc__pcie_memory){
		.base = base, .out = out, .write_combining = out != base, .size = size};
	m->nblocks = ripc__pcie_blocks(size);
	if (m->nblocks < 2) {
		*why = "its memory is too small";
		return -ENOSPC;
	}
	*why = "its memory holds something else";
	if (!load(m, 0) && !may_format) {
		*why = "its memory is not formatted";
		return -ENODATA;
	}
	if (load(m, 0) != MAGIC && may_format)
		rc = format(m, why);
	/* Another context may have finished in the meantime. */
	if (load(m, 0) != MAGIC)
		return rc ? rc : -EPROTO;
	if (load(m, SIZE_OFF) != size ||
	    load(m, COUNT_OFF) != (RIPC__PCIE_ENTRIES | (uint64_t)m->nblocks << 32)) {
		*why = "its memory is formatted for another size or version";
		return -EPROTO;
	}
	memcpy(m->id, m->base + ID_OFF, sizeof(m->id));
	return 0;
}

/* ---- entries ---- */

void ripc__pcie_set_kernel(struct ripc__pcie_memory *m)
{
	struct ripc__host host;
	struct stat st;

	ripc__host_get(&host);
	if (!host.known || stat("/proc/self/ns/pid", &st))
		return;
	m->kernel = (ripc__fnv1a(1, host.boot, sizeof(host.boot)) ^ st.st_ino) | 1;
}

/* Whether it belongs to an ended process of our kernel. Silence alone may mean a busy machine. */
static bool process_exited(const struct ripc__pcie_memory *m, unsigned entry)
{
	uint64_t process = load(m, entry_at(entry, PROCESS_OFF));
	pid_t pid = (pid_t)(process & INT32_MAX);

	return m->kernel && load(m, entry_at(entry, KERNEL_OFF)) == m->kernel &&
	       /* Not of an earlier claim. */
	       process >> 32 == (uint32_t)(load(m, entry_at(entry, CLAIM_OFF)) >> 16) && pid > 0 &&
	       kill(pid, 0) && errno == ESRCH;
}

static bool claim_entry(struct ripc__pcie_memory *m, unsigned entry)
{
	uint64_t claim = load(m, entry_at(entry, CLAIM_OFF)),
		 ref = ((claim >> 16) + 1) << 16 | entry << 1 | TAKEN;

	if (claim & TAKEN || !compare_exchange(m, entry_at(entry, CLAIM_OFF), claim, ref))
		return false;
	m->entry = entry;
	m->ref = ref;
	store(m, entry_at(entry, DOORBELL_OFF), 0);
	store(m, entry_at(entry, KERNEL_OFF), m->kernel);
	store(m, entry_at(entry, PROCESS_OFF), (uint64_t)getpid() | (ref >> 16) << 32);
	store(m, entry_at(entry, HEARTBEAT_OFF), load(m, entry_at(entry, HEARTBEAT_OFF)) + 1);
	return true;
}

static bool claim_any(struct ripc__pcie_memory *m)
{
	for (unsigned i = 0; i < RIPC__PCIE_ENTRIES; i++)
		if (claim_entry(m, i))
			return true;
	return false;
}

/* Reads all heartbeats. Adds to the silence of those that have not changed. */
static void scan_heartbeats(struct ripc__pcie_memory *m, uint64_t passed_ns)
{
	for (unsigned i = 0; i < RIPC__PCIE_ENTRIES; i++) {
		uint64_t claim = load(m, entry_at(i, CLAIM_OFF));
		uint64_t beat = load(m, entry_at(i, HEARTBEAT_OFF));

		if (claim & TAKEN && claim == m->seen[i].claim && beat == m->seen[i].beat) {
			m->seen[i].silent_ns += passed_ns;
			continue;
		}
		m->seen[i].claim = claim;
		m->seen[i].beat = beat;
		m->seen[i].silent_ns = 0;
	}
}

/* Frees the blocks of a context whose process has ended: it will not write into them any more. */
static void blocks_release(struct ripc__pcie_memory *m, uint64_t ref)
{
	for (uint32_t block = 0; block < m->nblocks; block++) {
		if (load(m, block_at(block, OWNER_OFF)) == ref)
			compare_exchange(m, block_at(block, OWNER_OFF), ref, 0);
		if (load(m, block_at(block, USER_OFF)) == ref)
			compare_exchange(m, block_at(block, USER_OFF), ref, 0);
	}
}

/* Frees entries that have been silent for so long, and with them their blocks. */
static void evict(struct ripc__pcie_memory *m, uint64_t silence_ns)
{
	for (unsigned i = 0; i < RIPC__PCIE_ENTRIES; i++) {
		uint64_t claim = m->seen[i].claim, silent_ns = m->seen[i].silent_ns;
		bool exited;

		if (!(claim & TAKEN) || claim == m->ref || silent_ns < RIPC__PCIE_HEARTBEAT_NS)
			continue;
		exited = process_exited(m, i);
		if ((exited || silent_ns >= silence_ns) &&
		    compare_exchange(m, entry_at(i, CLAIM_OFF), claim, claim & ~TAKEN) && exited)
			blocks_release(m, claim);
	}
}

int ripc__pcie_entry_claim(struct ripc__pcie_memory *m)
{
	const struct timespec ts = {0, (long)CLAIM_RETRY_NS};
	bool in = claim_any(m);

	/* If all contexts are dead, none of them evicts the others. */
	for (unsigned i = 0; !in && i <= CLAIM_RETRIES; i++) {
		scan_heartbeats(m, CLAIM_RETRY_NS);
		if (i == CLAIM_RETRIES)
			evict(m, CLAIM_RETRIES * CLAIM_RETRY_NS);
		else
			nanosleep(&ts, NULL);
		in = claim_any(m);
	}
	memset(m->seen, 0, sizeof(m->seen));
	return in ? 0 : -ENOSPC;
}

bool ripc__pcie_entry_renew(struct ripc__pcie_memory *m)
{
	uint64_t lost = m->ref;

	/* A device that is gone reads as all ones. */
	if (load(m, 0) != MAGIC || memcmp(m->id, m->base + ID_OFF, sizeof(m->id)) || !claim_any(m))
		return false;
	blocks_release(m, lost);
	memset(m->seen, 0, sizeof(m->seen));
	m->scanned_ns = 0;
	return true;
}

void ripc__pcie_entry_release(struct ripc__pcie_memory *m)
{
	if (m->ref)
		compare_exchange(m, entry_at(m->entry, CLAIM_OFF), m->ref, m->ref & ~TAKEN);
	m->ref = 0;
}

bool ripc__pcie_entry_held(const struct ripc__pcie_memory *m)
{
	return m->ref && load(m, entry_at(m->entry, CLAIM_OFF)) == m->ref;
}

bool ripc__pcie_heartbeat(struct ripc__pcie_memory *m, uint64_t now_ns)
{
	uint64_t passed = m->scanned_ns && now_ns > m->scanned_ns ? now_ns - m->scanned_ns : 0;

	/* A device that is gone reads as all ones. */
	if (load(m, 0) != MAGIC || !ripc__pcie_entry_held(m))
		return false;
	store(m, entry_at(m->entry, HEARTBEAT_OFF), load(m, entry_at(m->entry, HEARTBEAT_OFF)) + 1);
	/* If our own process was stopped, that proves nothing about the others. */
	scan_heartbeats(m, passed < 2 * RIPC__PCIE_HEARTBEAT_NS ? passed
								: 2 * RIPC__PCIE_HEARTBEAT_NS);
	evict(m, RIPC__PCIE_EVICT_NS);
	m->scanned_ns = now_ns;
	return true;
}

static bool claimed(const struct ripc__pcie_memory *m, uint64_t ref)
{
	return ref & TAKEN && load(m, entry_at(entry_of(ref), CLAIM_OFF)) == ref;
}

bool ripc__pcie_alive(const struct ripc__pcie_memory *m, uint64_t ref, uint64_t silence_ns)
{
	unsigned entry = entry_of(ref);

	return claimed(m, ref) && !process_exited(m, entry) &&
	       (m->seen[entry].claim != ref || m->seen[entry].silent_ns < silence_ns);
}

void ripc__pcie_notify(struct ripc__pcie_memory *m, uint64_t ref)
{
	__atomic_fetch_add((uint64_t *)(void *)(m->base + entry_at(entry_of(ref), NOTIFY_OFF)), 1,
			   __ATOMIC_SEQ_CST);
}

uint64_t ripc__pcie_notify_count(const struct ripc__pcie_memory *m)
{
	return load(m, entry_at(m->entry, NOTIFY_OFF));
}

void ripc__pcie_set_doorbell(struct ripc__pcie_memory *m, uint64_t word)
{
	store(m, entry_at(m->entry, DOORBELL_OFF), word);
}

uint64_t ripc__pcie_doorbell(const struct ripc__pcie_memory *m, uint64_t ref)
{
	return claimed(m, ref) ? load(m, entry_at(entry_of(ref), DOORBELL_OFF)) : 0;
}

/* ---- blocks ---- */

/* unreleased: also one that a lost context has not released. */
static bool try_claim_block(struct ripc__pcie_memory *m, uint32_t block, bool unreleased)
{
	uint64_t owner = load(m, block_at(block, OWNER_OFF)),
		 user = load(m, block_at(block, USER_OFF));

	if (!unreleased && (user || (owner && !(owner & CLOSED))))
		return false;
	if ((owner && !(owner & CLOSED) && claimed(m, owner)) || (user && claimed(m, user)) ||
	    !compare_exchange(m, block_at(block, OWNER_OFF), owner, m->ref))
		return false;
	/* Another context may just have become its user, and will find that it is too late. */
	full_fence();
	user = load(m, block_at(block, USER_OFF));
	if (user &&
	    (claimed(m, user) || !compare_exchange(m, block_at(block, USER_OFF), user, 0))) {
		store(m, block_at(block, OWNER_OFF), m->ref | CLOSED);
		return false;
	}
	return true;
}

int ripc__pcie_block_get(struct ripc__pcie_memory *m)
{
	/*
	 * The lowest first, so that unused memory stays untouched. Last those of lost contexts: one
	 * that was stopped while it copied into a block finishes that copy when it continues.
	 */
	for (uint64_t i = 0; i < 2 * (uint64_t)m->nblocks; i++) {
		uint32_t block = (uint32_t)(i % m->nblocks);

		if (!try_claim_block(m, block, i >= m->nblocks))
			continue;
		store(m, block_at(block, SETUP_OFF), 0);
		store(m, block_at(block, ANSWER_OFF), 0);
		/*
		 * The parameters, and the part of the segment that an engine reads before the peer
		 * writes it.
		 */
		memset(m->base + block_off(m, block), 0,
		       RIPC__PCIE_SEGMENT_OFF + ripc__ring_segment_len(&ripc__pcie_layout) -
			       ((size_t)1 << ripc__pcie_layout.bulk_bits));
		return (int)block;
	}
	return -ENOSPC;
}

void ripc__pcie_block_put(struct ripc__pcie_memory *m, uint32_t block)
{
	store(m, block_at(block, SETUP_OFF), 0);
	store(m, block_at(block, OWNER_OFF), m->ref | CLOSED);
	full_fence();
	if (!load(m, block_at(block, USER_OFF)))
		compare_exchange(m, block_at(block, OWNER_OFF), m->ref | CLOSED, 0);
}

void ripc__pcie_block_publish(struct ripc__pcie_memory *m, uint32_t block, uint64_t target,
			      enum ripc__pcie_setup_kind kind)
{
	store(m, block_at(block, TARGET_OFF), target);
	ripc__pcie_fence(m);
	store(m, block_at(block, SETUP_OFF), ++m->serial << 8 | kind);
}

bool ripc__pcie_block_read(const struct ripc__pcie_memory *m, uint32_t block,
			   struct ripc__pcie_setup_msg *s)
{
	s->call = load(m, block_at(block, SETUP_OFF));
	s->target = load(m, block_at(block, TARGET_OFF));
	s->owner = load(m, block_at(block, OWNER_OFF));
	return s->call && claimed(m, s->owner);
}

bool ripc__pcie_attach(struct ripc__pcie_memory *m, uint32_t block,
		       const struct ripc__pcie_setup_msg *s)
{
	if (!compare_exchange(m, block_at(block, USER_OFF), 0, m->ref))
		return false;
	full_fence();
	if (ripc__pcie_is_owner(m, block, s->owner) &&
	    load(m, block_at(block, SETUP_OFF)) == s->call)
		return true;
	ripc__pcie_detach(m, block);
	return false;
}

void ripc__pcie_detach(struct ripc__pcie_memory *m, uint32_t block)
{
	ripc__pcie_fence(m);
	compare_exchange(m, block_at(block, USER_OFF), m->ref, 0);
}

bool ripc__pcie_is_owner(const struct ripc__pcie_memory *m, uint32_t block, uint64_t owner)
{
	return load(m, block_at(block, OWNER_OFF)) == owner;
}

void ripc__pcie_answer(struct ripc__pcie_memory *m, uint32_t block, enum ripc__pcie_answer kind,
		       uint32_t other)
{
	ripc__pcie_fence(m);
	store(m, block_at(block, ANSWER_OFF), (uint64_t)other << 8 | kind);
}

unsigned ripc__pcie_answer_read(const struct ripc__pcie_memory *m, uint32_t block, uint32_t *other)
{
	uint64_t answer = load(m, block_at(block, ANSWER_OFF));

	*other = (uint32_t)(answer >> 8);
	return (uint8_t)answer;
}

uint8_t *ripc__pcie_params(const struct ripc__pcie_memory *m, uint32_t block, unsigned which)
{
	return m->base + block_off(m, block) + (size_t)which * RIPC__PCIE_PARAMS_MAX;
}

const uint8_t *ripc__pcie_inbox(const struct ripc__pcie_memory *m, uint32_t block)
{
	return m->base + block_off(m, block) + RIPC__PCIE_SEGMENT_OFF;
}

uint8_t *ripc__pcie_outbox(const struct ripc__pcie_memory *m, uint32_t block)
{
	return m->out + block_off(m, block) + RIPC__PCIE_SEGMENT_OFF;
}
