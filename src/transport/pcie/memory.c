/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "transport/pcie/memory.h"
#include "base/host.h"
#include "wire/bytes.h"

#include <errno.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3165696370706972) /* "rippcie1" */

/* Header: magic, bytes, id, number of places and blocks. */
#define HEADER_BYTES 4096u
#define SIZE_AT      8u
#define ID_AT        16u
#define COUNT_AT     32u

/* A place: claim, beat, process and doorbell are its context's; the bell, in a line of its own, is the others'. */
#define PLACES_AT   HEADER_BYTES
#define PLACE_BYTES 128u
#define BEAT_AT     8u
#define KERNEL_AT   16u
#define PROCESS_AT  24u
#define DOORBELL_AT 32u
#define BELL_AT     64u

/* What is known of a block, a line each. */
#define ROWS_AT   (PLACES_AT + RIPC__PCIE_PLACES * PLACE_BYTES)
#define ROW_BYTES 64u
#define OWNER_AT  0u
#define USER_AT   8u
#define CALL_AT   16u
#define TARGET_AT 24u
#define ANSWER_AT 32u

#define TAKEN    UINT64_C(1)      /* of a claim */
#define CLOSED   UINT64_C(0x8000) /* of an owner: it has no use for the block any more */
#define ROUNDS   10               /* beats that are waited for a free place */
#define ROUND_NS RIPC__PCIE_BEAT_NS

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

static bool exchange(struct ripc__pcie_memory *m, size_t at, uint64_t from, uint64_t to)
{
	uint64_t expected = htole64(from);

	return __atomic_compare_exchange_n((uint64_t *)(void *)(m->base + at), &expected,
					   htole64(to), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* What we wrote is seen by whoever writes something that we do not see. */
static void order(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void ripc__pcie_fence(const struct ripc__pcie_memory *m)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (!m->combines)
		return;
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_sfence();
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* ---- layout ---- */

static size_t blocks_at(uint32_t nblocks)
{
	return (ROWS_AT + (size_t)nblocks * ROW_BYTES + 4095) & ~(size_t)4095;
}

uint32_t ripc__pcie_blocks(size_t size)
{
	size_t n = size / (ripc__pcie_block_size() + ROW_BYTES);

	if (n > RIPC__PCIE_BLOCKS_MAX)
		n = RIPC__PCIE_BLOCKS_MAX;
	while (n && blocks_at((uint32_t)n) + n * ripc__pcie_block_size() > size)
		n--;
	return (uint32_t)n;
}

static size_t row(uint32_t block)
{
	return ROWS_AT + (size_t)block * ROW_BYTES;
}

static size_t block_at(const struct ripc__pcie_memory *m, uint32_t block)
{
	return blocks_at(m->nblocks) + block * ripc__pcie_block_size();
}

static unsigned place_of(uint64_t ref)
{
	return (ref >> 1) & (RIPC__PCIE_PLACES - 1);
}

static size_t place_at(unsigned place)
{
	return PLACES_AT + (size_t)place * PLACE_BYTES;
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

/* Several may do so at once: each word is written by the first who comes, the one that says that all stand last. */
static int format(struct ripc__pcie_memory *m, const char **why)
{
	uint64_t id[2];

	if (!is_zero(m->base, blocks_at(m->nblocks)))
		return -EPROTO;
	if (getrandom(id, sizeof(id), 0) != sizeof(id)) {
		*why = "no random numbers";
		return -EIO;
	}
	exchange(m, ID_AT, 0, id[0] | 1);
	exchange(m, ID_AT + 8, 0, id[1] | 1);
	exchange(m, SIZE_AT, 0, m->size);
	exchange(m, COUNT_AT, 0, RIPC__PCIE_PLACES | (uint64_t)m->nblocks << 32);
	exchange(m, 0, 0, MAGIC);
	return 0;
}

int ripc__pcie_join(struct ripc__pcie_memory *m, uint8_t *base, uint8_t *out, size_t size,
		    bool may_format, const char **why)
{
	int rc = 0;

	*m = (struct ripc__pcie_memory){
		.base = base, .out = out, .combines = out != base, .size = size};
	m->nblocks = ripc__pcie_blocks(size);
	if (m->nblocks < 2) {
		*why = "its memory is too small";
		return -ENOSPC;
	}
	*why = "its memory holds something else";
	if (!load(m, 0) && !may_format) {
		*why = "nobody has made its memory ready for use";
		return -ENODATA;
	}
	if (load(m, 0) != MAGIC && may_format)
		rc = format(m, why);
	/* Somebody else may have been as far as that in the meantime. */
	if (load(m, 0) != MAGIC)
		return rc ? rc : -EPROTO;
	if (load(m, SIZE_AT) != size ||
	    load(m, COUNT_AT) != (RIPC__PCIE_PLACES | (uint64_t)m->nblocks << 32)) {
		*why = "its memory is ready for use, but for another size or version";
		return -EPROTO;
	}
	memcpy(m->id, m->base + ID_AT, sizeof(m->id));
	return 0;
}

/* ---- places ---- */

void ripc__pcie_set_kernel(struct ripc__pcie_memory *m)
{
	struct ripc__host host;
	uint64_t sum = 1;
	struct stat st;

	ripc__host_get(&host);
	if (!host.known || stat("/proc/self/ns/pid", &st))
		return;
	for (unsigned i = 0; i < sizeof(host.boot); i++)
		sum = (sum ^ host.boot[i]) * UINT64_C(0x100000001b3);
	m->kernel = (sum ^ st.st_ino) | 1;
}

/* Whether it is one of ours that has ended. Silence alone may be that of a busy machine. */
static bool gone(const struct ripc__pcie_memory *m, unsigned place)
{
	uint64_t process = load(m, place_at(place) + PROCESS_AT);
	pid_t pid = (pid_t)(process & INT32_MAX);

	return m->kernel && load(m, place_at(place) + KERNEL_AT) == m->kernel &&
	       /* Not what the one before has left. */
	       process >> 32 == (uint32_t)(load(m, place_at(place)) >> 16) && pid > 0 &&
	       kill(pid, 0) && errno == ESRCH;
}

static bool take_place(struct ripc__pcie_memory *m, unsigned place)
{
	uint64_t claim = load(m, place_at(place)),
		 ref = ((claim >> 16) + 1) << 16 | place << 1 | TAKEN;

	if (claim & TAKEN || !exchange(m, place_at(place), claim, ref))
		return false;
	m->place = place;
	m->ref = ref;
	store(m, place_at(place) + DOORBELL_AT, 0);
	store(m, place_at(place) + KERNEL_AT, m->kernel);
	store(m, place_at(place) + PROCESS_AT, (uint64_t)getpid() | (ref >> 16) << 32);
	store(m, place_at(place) + BEAT_AT, load(m, place_at(place) + BEAT_AT) + 1);
	return true;
}

static bool take_any(struct ripc__pcie_memory *m)
{
	for (unsigned i = 0; i < RIPC__PCIE_PLACES; i++)
		if (take_place(m, i))
			return true;
	return false;
}

/* What each of them shows now. Adds to the silence of those that show what they did before. */
static void look(struct ripc__pcie_memory *m, uint64_t passed_ns)
{
	for (unsigned i = 0; i < RIPC__PCIE_PLACES; i++) {
		uint64_t claim = load(m, place_at(i)), beat = load(m, place_at(i) + BEAT_AT);

		if (claim & TAKEN && claim == m->seen[i].claim && beat == m->seen[i].beat) {
			m->seen[i].silent_ns += passed_ns;
			continue;
		}
		m->seen[i].claim = claim;
		m->seen[i].beat = beat;
		m->seen[i].silent_ns = 0;
	}
}

/* Frees the places of those that have been silent for so long. Their blocks are free with that. */
static void evict(struct ripc__pcie_memory *m, uint64_t silence_ns)
{
	for (unsigned i = 0; i < RIPC__PCIE_PLACES; i++)
		if (m->seen[i].claim & TAKEN && m->seen[i].claim != m->ref &&
		    (m->seen[i].silent_ns >= silence_ns ||
		     (m->seen[i].silent_ns >= RIPC__PCIE_BEAT_NS && gone(m, i))))
			exchange(m, place_at(i), m->seen[i].claim, m->seen[i].claim & ~TAKEN);
}

int ripc__pcie_enter(struct ripc__pcie_memory *m)
{
	const struct timespec ts = {0, (long)ROUND_NS};
	bool in = take_any(m);

	/* Nobody may be left who would find out in time that they are all dead. */
	for (unsigned i = 0; !in && i <= ROUNDS; i++) {
		look(m, ROUND_NS);
		if (i == ROUNDS)
			evict(m, ROUNDS * ROUND_NS);
		else
			nanosleep(&ts, NULL);
		in = take_any(m);
	}
	memset(m->seen, 0, sizeof(m->seen));
	return in ? 0 : -ENOSPC;
}

void ripc__pcie_leave(struct ripc__pcie_memory *m)
{
	if (m->ref)
		exchange(m, place_at(m->place), m->ref, m->ref & ~TAKEN);
	m->ref = 0;
}

bool ripc__pcie_beat(struct ripc__pcie_memory *m, uint64_t now_ns)
{
	uint64_t passed = m->scanned_ns && now_ns > m->scanned_ns ? now_ns - m->scanned_ns : 0;

	/* A device that is gone reads as all ones. */
	if (!m->ref || load(m, 0) != MAGIC || load(m, place_at(m->place)) != m->ref)
		return false;
	store(m, place_at(m->place) + BEAT_AT, load(m, place_at(m->place) + BEAT_AT) + 1);
	/* If it was we who stood still, that says nothing about the others. */
	look(m, passed < 2 * RIPC__PCIE_BEAT_NS ? passed : 2 * RIPC__PCIE_BEAT_NS);
	evict(m, RIPC__PCIE_EVICT_NS);
	m->scanned_ns = now_ns;
	return true;
}

static bool claimed(const struct ripc__pcie_memory *m, uint64_t ref)
{
	return ref & TAKEN && load(m, place_at(place_of(ref))) == ref;
}

bool ripc__pcie_lives(const struct ripc__pcie_memory *m, uint64_t ref, uint64_t silence_ns)
{
	unsigned place = place_of(ref);

	return claimed(m, ref) && !gone(m, place) &&
	       (m->seen[place].claim != ref || m->seen[place].silent_ns < silence_ns);
}

void ripc__pcie_ring(struct ripc__pcie_memory *m, uint64_t ref)
{
	__atomic_fetch_add((uint64_t *)(void *)(m->base + place_at(place_of(ref)) + BELL_AT), 1,
			   __ATOMIC_SEQ_CST);
}

uint64_t ripc__pcie_bell(const struct ripc__pcie_memory *m)
{
	return load(m, place_at(m->place) + BELL_AT);
}

void ripc__pcie_set_doorbell(struct ripc__pcie_memory *m, uint64_t word)
{
	store(m, place_at(m->place) + DOORBELL_AT, word);
}

uint64_t ripc__pcie_doorbell(const struct ripc__pcie_memory *m, uint64_t ref)
{
	return claimed(m, ref) ? load(m, place_at(place_of(ref)) + DOORBELL_AT) : 0;
}

/* ---- blocks ---- */

static bool try_block(struct ripc__pcie_memory *m, uint32_t block)
{
	uint64_t owner = load(m, row(block) + OWNER_AT), user = load(m, row(block) + USER_AT);

	if ((owner && !(owner & CLOSED) && claimed(m, owner)) || (user && claimed(m, user)) ||
	    !exchange(m, row(block) + OWNER_AT, owner, m->ref))
		return false;
	/* Somebody may just have become its user, and is about to see that he is late. */
	order();
	user = load(m, row(block) + USER_AT);
	if (user && (claimed(m, user) || !exchange(m, row(block) + USER_AT, user, 0))) {
		store(m, row(block) + OWNER_AT, m->ref | CLOSED);
		return false;
	}
	return true;
}

int ripc__pcie_block_get(struct ripc__pcie_memory *m)
{
	/* The lowest first: memory that nobody ever needed is not touched. */
	for (uint32_t block = 0; block < m->nblocks; block++) {
		if (!try_block(m, block))
			continue;
		store(m, row(block) + CALL_AT, 0);
		store(m, row(block) + ANSWER_AT, 0);
		/* Notes, and of the segment all that an engine looks at before somebody has written it. */
		memset(m->base + block_at(m, block), 0,
		       RIPC__PCIE_SEGMENT_AT + ripc__win_size(&ripc__pcie_shape) -
			       ((size_t)1 << ripc__pcie_shape.bulk_bits));
		return (int)block;
	}
	return -ENOSPC;
}

void ripc__pcie_block_put(struct ripc__pcie_memory *m, uint32_t block)
{
	store(m, row(block) + CALL_AT, 0);
	store(m, row(block) + OWNER_AT, m->ref | CLOSED);
	order();
	if (!load(m, row(block) + USER_AT))
		exchange(m, row(block) + OWNER_AT, m->ref | CLOSED, 0);
}

void ripc__pcie_block_call(struct ripc__pcie_memory *m, uint32_t block, uint64_t target,
			   enum ripc__pcie_call kind)
{
	store(m, row(block) + TARGET_AT, target);
	ripc__pcie_fence(m);
	store(m, row(block) + CALL_AT, ++m->serial << 8 | kind);
}

bool ripc__pcie_block_seen(const struct ripc__pcie_memory *m, uint32_t block,
			   struct ripc__pcie_call_seen *s)
{
	s->call = load(m, row(block) + CALL_AT);
	s->target = load(m, row(block) + TARGET_AT);
	s->owner = load(m, row(block) + OWNER_AT);
	return s->call && claimed(m, s->owner);
}

bool ripc__pcie_attach(struct ripc__pcie_memory *m, uint32_t block,
		       const struct ripc__pcie_call_seen *s)
{
	if (!exchange(m, row(block) + USER_AT, 0, m->ref))
		return false;
	order();
	if (load(m, row(block) + OWNER_AT) == s->owner && load(m, row(block) + CALL_AT) == s->call)
		return true;
	ripc__pcie_detach(m, block);
	return false;
}

void ripc__pcie_detach(struct ripc__pcie_memory *m, uint32_t block)
{
	ripc__pcie_fence(m);
	exchange(m, row(block) + USER_AT, m->ref, 0);
}

bool ripc__pcie_owned(const struct ripc__pcie_memory *m, uint32_t block, uint64_t owner)
{
	return load(m, row(block) + OWNER_AT) == owner;
}

void ripc__pcie_answer(struct ripc__pcie_memory *m, uint32_t block, enum ripc__pcie_answer kind,
		       uint32_t other)
{
	ripc__pcie_fence(m);
	store(m, row(block) + ANSWER_AT, (uint64_t)other << 8 | kind);
}

unsigned ripc__pcie_answered(const struct ripc__pcie_memory *m, uint32_t block, uint32_t *other)
{
	uint64_t answer = load(m, row(block) + ANSWER_AT);

	*other = (uint32_t)(answer >> 8);
	return (uint8_t)answer;
}

void ripc__pcie_notes_write(struct ripc__pcie_memory *m, uint32_t block, unsigned which,
			    const void *notes, size_t len)
{
	memcpy(m->base + block_at(m, block) + (size_t)which * RIPC__PCIE_NOTES_MAX, notes, len);
}

void ripc__pcie_notes_read(const struct ripc__pcie_memory *m, uint32_t block, unsigned which,
			   void *notes, size_t len)
{
	memcpy(notes, m->base + block_at(m, block) + (size_t)which * RIPC__PCIE_NOTES_MAX, len);
}

const uint8_t *ripc__pcie_inbox(const struct ripc__pcie_memory *m, uint32_t block)
{
	return m->base + block_at(m, block) + RIPC__PCIE_SEGMENT_AT;
}

uint8_t *ripc__pcie_outbox(const struct ripc__pcie_memory *m, uint32_t block)
{
	return m->out + block_at(m, block) + RIPC__PCIE_SEGMENT_AT;
}
