/* Races in the twin of a CUDA program: accesses that nothing keeps apart, whatever their values are.
 *
 * Built with `-fsanitize=thread`, a compiler calls a function for each access to memory; these are here, and no library is
 * needed. Each two bytes that a kernel accesses have a shadow, which knows who wrote them last, and who has read or added to
 * them since; each byte, where `TWIN_CELL_BYTES` is 1 for numbers of one byte. Two threads of a block must not meet at bytes
 * that one of them changes, unless a barrier is between them, and two blocks of a grid must not at all; but atomic additions
 * may meet each other. A copy that is under way writes until it is waited for. Shuffles keep nothing apart. The first race
 * ends the process. And it is known which elements of an array have been read at all: where a maximum passes one over,
 * results may be right nevertheless.
 */
#if defined(__SANITIZE_THREAD__)
#pragma GCC push_options
#pragma GCC optimize("O2")

/* Accesses can meet in one `memory`: of the device, during a launch, or of one block. */
struct twin_access {
  unsigned memory, block, barriers, thread;
};
/* Several that may meet each other: the last of them, and whether there are some of other threads since the same barrier, or
 * of other blocks. */
struct twin_group {
  twin_access last;
  bool has_other_threads, has_other_blocks;
};
struct twin_shadow {
  twin_access write;
  twin_group read, added;
};

#ifndef TWIN_CELL_BYTES
#define TWIN_CELL_BYTES 2
#endif
#define TWIN_PAGE_BYTES 4096
#define TWIN_PAGE_BITS 20

static struct twin_page {
  uintptr_t number;
  twin_shadow *cells;
} *twin_pages;

extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];

TWIN_UNSEEN static void *twin_zeros(size_t size) {
  void *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) twin_fail("no memory for shadows");
  return memory;
}

TWIN_UNSEEN static twin_shadow *twin_shadow_of(uintptr_t address) {
  static twin_page *last;
  uintptr_t number = address / TWIN_PAGE_BYTES;
  if (!last || last->number != number) {
    if (!twin_pages) twin_pages = (twin_page *)twin_zeros(sizeof(twin_page) << TWIN_PAGE_BITS);
    uint64_t at = number * 0x9e3779b97f4a7c15u >> (64 - TWIN_PAGE_BITS);
    while (twin_pages[at].cells && twin_pages[at].number != number) at = (at + 1) % (1u << TWIN_PAGE_BITS);
    last = &twin_pages[at];
    last->number = number;
    if (!last->cells) last->cells = (twin_shadow *)twin_zeros(TWIN_PAGE_BYTES / TWIN_CELL_BYTES * sizeof(twin_shadow));
  }
  return &last->cells[address % TWIN_PAGE_BYTES / TWIN_CELL_BYTES];
}

TWIN_UNSEEN static void twin_race(const char *now, const char *then, uintptr_t address, const twin_access &before) {
  bool is_shared = address - (uintptr_t)shared_memory < sizeof shared_memory;
  fprintf(stderr, "race: thread %u %s what ", threadIdx.x, now);
  if (before.thread == threadIdx.x && (is_shared || before.block == blockIdx.x)) fprintf(stderr, "another thread has %s", then);
  else fprintf(stderr, "thread %u of block %u has %s", before.thread, is_shared ? blockIdx.x : before.block, then);
  if (is_shared) fprintf(stderr, ", byte %zu of what is shared\n", (size_t)(address - (uintptr_t)shared_memory));
  else fprintf(stderr, ", in memory of the device at %#zx\n", (size_t)address);
  twin_fail("accesses that nothing keeps apart");
}

TWIN_UNSEEN static bool twin_meets(const twin_access &before, const twin_access &now) {
  if (before.memory != now.memory) return false;
  return before.block != now.block || (before.barriers == now.barriers && before.thread != now.thread);
}

TWIN_UNSEEN static bool twin_meets_some(const twin_group &before, const twin_access &now) {
  if (before.last.memory != now.memory) return false;
  bool is_met = before.has_other_threads && before.last.barriers == now.barriers;
  return is_met || before.has_other_blocks || twin_meets(before.last, now);
}

TWIN_UNSEEN static void twin_join(twin_group &group, const twin_access &now) {
  const twin_access &last = group.last;
  bool is_first = last.memory != now.memory, is_same_block = !is_first && last.block == now.block;
  bool is_same_time = is_same_block && last.barriers == now.barriers;
  group.has_other_blocks = !is_first && (group.has_other_blocks || !is_same_block);
  group.has_other_threads = is_same_time && (group.has_other_threads || last.thread != now.thread);
  group.last = now;
}

TWIN_UNSEEN __attribute__((noinline)) static void twin_see(const void *place, size_t size, twin_kind kind) {
  uintptr_t address = (uintptr_t)place;
  bool is_shared = address - (uintptr_t)shared_memory < sizeof shared_memory;
  if (!twin_now.is_in_kernel || address - (uintptr_t)twin_stacks < TWIN_STACKS_BYTES) return;
  // What the twin itself keeps.
  if (!is_shared && address - (uintptr_t)__bss_start < (uintptr_t)(_end - __bss_start)) return;
  const char *what = kind == TWIN_READS ? "reads" : kind == TWIN_WRITES ? "writes" : "adds to";
  twin_access now = {is_shared ? twin_now.blocks : twin_now.launches, is_shared ? 0 : blockIdx.x, twin_now.barriers, threadIdx.x};
  for (uintptr_t at = address & -TWIN_CELL_BYTES; at < address + size; at += TWIN_CELL_BYTES) {
    twin_shadow &cell = *twin_shadow_of(at);
    if (twin_meets(cell.write, now)) twin_race(what, "written", at, cell.write);
    if (kind != TWIN_READS && twin_meets_some(cell.read, now)) twin_race(what, "read", at, cell.read.last);
    if (kind != TWIN_ADDS && twin_meets_some(cell.added, now)) twin_race(what, "added to", at, cell.added.last);
    if (kind == TWIN_WRITES) cell.write = now;
    else twin_join(kind == TWIN_READS ? cell.read : cell.added, now);
  }
}

/* All threads have come to a barrier. What they still copy is written behind it, too. */
TWIN_UNSEEN static void twin_pass(unsigned threads) {
  ++twin_now.barriers;
  for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
    const twin_queue &queue = twin_queues[threadIdx.x];
    for (unsigned n = 0; n < queue.end; ++n) twin_see(queue.copies[n].to, queue.copies[n].bytes, TWIN_WRITES);
  }
}

/* The first of elements that are needed which no kernel has read since `twin_forget`; where there is none, their number. */
extern "C" TWIN_UNSEEN size_t twin_unread(const char *array, const bool *is_needed, size_t elements, size_t element_bytes) {
  for (size_t n = 0; n < elements; ++n)
    if (is_needed[n] && twin_shadow_of((uintptr_t)array + n * element_bytes)->read.last.memory <= twin_now.forgotten) return n;
  return elements;
}

extern "C" {
#define TWIN_SEEN(size)                                                                       \
  TWIN_UNSEEN void __tsan_read##size(void *place) { twin_see(place, size, TWIN_READS); }           \
  TWIN_UNSEEN void __tsan_write##size(void *place) { twin_see(place, size, TWIN_WRITES); }           \
  TWIN_UNSEEN void __tsan_unaligned_read##size(void *place) { twin_see(place, size, TWIN_READS); } \
  TWIN_UNSEEN void __tsan_unaligned_write##size(void *place) { twin_see(place, size, TWIN_WRITES); }
TWIN_SEEN(1)
TWIN_SEEN(2)
TWIN_SEEN(4)
TWIN_SEEN(8)
TWIN_SEEN(16)
TWIN_UNSEEN void __tsan_read_range(void *place, size_t size) { twin_see(place, size, TWIN_READS); }
TWIN_UNSEEN void __tsan_write_range(void *place, size_t size) { twin_see(place, size, TWIN_WRITES); }
TWIN_UNSEEN void __tsan_init(void) {}
TWIN_UNSEEN void __tsan_func_entry(void *) {}
TWIN_UNSEEN void __tsan_func_exit(void) {}
}
#pragma GCC pop_options
#endif
