/* How many bytes threads can move from and to a working set of a given size, at most.
 *
 *     memory_peaks CPU[,CPU..] BYTES..
 *
 * pins one thread to each CPU and shares each working set out among them; BYTES is the size of all shares
 * together. Built with the flags of candidates and -DVECTOR_BYTES. Prints, for each size,
 *
 *     moved <threads> <bytes> <share that is stored> plain|streamed <best bytes per ns> <usual bytes per ns>
 *
 * for each pattern: loads alone, stores alone, copies, and two loads with a store, counting the bytes that the
 * program names. Stores go through the caches (`plain`) or around them (`streamed`), loads come with and
 * without lines that are asked for before.
 *
 * A thread goes through its share piece by piece and times each: its best piece while all threads are at work
 * counts, and rates of threads add up. So a thread that others displace for a while, which no machine that is
 * shared can help, spoils a piece and not the sample. What is usual is the median of samples, each as a whole:
 * of what others use as well, single pieces may come several times as fast. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

enum { MAX_THREADS = 1024, MIN_SAMPLES = 2, MAX_SAMPLES = 200, SAMPLE_BYTES = 1 << 20, LINE = 64 };
enum { PIECE_BYTES = 256 << 10, MAX_PIECES = 1 << 13 };
static const double BUDGET_NS = 7e6; /* for one pattern at one size */

typedef int32_t Vector __attribute__((vector_size(VECTOR_BYTES)));
#if defined __x86_64__
#define REG "v"
#else
#define REG "w"
#endif

#if defined __x86_64__ && VECTOR_BYTES == 64
#define STREAM(p, x) _mm512_stream_si512((__m512i *)(p), (__m512i)(x))
#elif defined __x86_64__ && VECTOR_BYTES == 32
#define STREAM(p, x) _mm256_stream_si256((__m256i *)(p), (__m256i)(x))
#elif defined __x86_64__
#define STREAM(p, x) _mm_stream_si128((__m128i *)(p), (__m128i)(x))
#else
#define STREAM(p, x) (*(p) = (x)) /* no such store in plain C here */
#endif
#define PLAIN(p, x) (*(p) = (x))

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Each pattern moves `n` vectors in all, n a multiple of 48: from the start of `base`, loads and stores
 * in regions of their own. */
typedef void Pattern(Vector *base, size_t n);

#define LOAD(p, k) { Vector x_ = (p)[k]; __asm__ volatile("" : : REG(x_)); }
static void read_all(Vector *base, size_t n) {
  for (const Vector *p = base, *end = base + n; p < end; p += 8) {
    LOAD(p, 0) LOAD(p, 1) LOAD(p, 2) LOAD(p, 3) LOAD(p, 4) LOAD(p, 5) LOAD(p, 6) LOAD(p, 7)
  }
}

/* Asks for the lines of so many vectors that are read later: processors fetch less by themselves, and nothing
 * beyond the end of a page. */
enum { AHEAD_BYTES = 1024 };
static inline void ask(const Vector *p, size_t vectors) {
  for (size_t at = 0; at < vectors * sizeof(Vector); at += LINE)
    __builtin_prefetch((const void *)((uintptr_t)p + AHEAD_BYTES + at));
}
static inline void ask_not(const Vector *p, size_t vectors) { (void)p, (void)vectors; }

static void read_ahead(Vector *base, size_t n) {
  for (const Vector *p = base, *end = base + n; p < end; p += 8) {
    ask(p, 8);
    LOAD(p, 0) LOAD(p, 1) LOAD(p, 2) LOAD(p, 3) LOAD(p, 4) LOAD(p, 5) LOAD(p, 6) LOAD(p, 7)
  }
}

/* No zeros: of a Zen 4, a line of zeros gets to memory three times as fast as any other. */
static inline Vector filling(void) {
  Vector x;
  for (size_t k = 0; k < sizeof x / sizeof x[0]; k++) x[k] = 1065353216 + 77773 * (int32_t)k;
  __asm__ volatile("" : "+" REG(x));
  return x;
}

#define FILLER(suffix, PUT)                                                                       \
  static void fill_##suffix(Vector *base, size_t n) {                                             \
    Vector x = filling();                                                                         \
    for (Vector *p = base, *end = base + n; p < end; p += 4) {                                    \
      PUT(p, x); PUT(p + 1, x); PUT(p + 2, x); PUT(p + 3, x);                                     \
      __asm__ volatile("" : : : "memory");                                                        \
    }                                                                                             \
  }
FILLER(plain, PLAIN)
FILLER(stream, STREAM)

#define WRITERS(suffix, PUT, ASK)                                                                 \
  static void copy_##suffix(Vector *base, size_t n) {                                             \
    const Vector *from = base;                                                                    \
    Vector *to = base + n / 2;                                                                    \
    for (size_t i = 0; i < n / 2; i += 4) {                                                       \
      ASK(from + i, 4);                                                                           \
      PUT(to + i, from[i]); PUT(to + i + 1, from[i + 1]);                                         \
      PUT(to + i + 2, from[i + 2]); PUT(to + i + 3, from[i + 3]);                                 \
      __asm__ volatile("" : : : "memory");                                                        \
    }                                                                                             \
  }                                                                                               \
  static void triad_##suffix(Vector *base, size_t n) {                                            \
    const Vector *left = base, *right = base + n / 3;                                             \
    Vector *to = base + 2 * (n / 3);                                                              \
    for (size_t i = 0; i < n / 3; i += 4) {                                                       \
      ASK(left + i, 4), ASK(right + i, 4);                                                        \
      LOAD(left, i) LOAD(left, i + 1) LOAD(left, i + 2) LOAD(left, i + 3)                         \
      PUT(to + i, right[i]); PUT(to + i + 1, right[i + 1]);                                       \
      PUT(to + i + 2, right[i + 2]); PUT(to + i + 3, right[i + 3]);                               \
      __asm__ volatile("" : : : "memory");                                                        \
    }                                                                                             \
  }
WRITERS(plain, PLAIN, ask_not)
WRITERS(stream, STREAM, ask_not)
WRITERS(ahead, STREAM, ask)

static const struct {
  Pattern *run;
  double stored; /* share of the bytes */
  const char *way;
} PATTERNS[] = {{read_all, 0, "plain"},           {read_ahead, 0, "plain"},
                {fill_plain, 1, "plain"},         {fill_stream, 1, "streamed"},
                {copy_plain, 1.0 / 2, "plain"},   {copy_stream, 1.0 / 2, "streamed"},
                {triad_plain, 1.0 / 3, "plain"},  {triad_stream, 1.0 / 3, "streamed"},
                {copy_ahead, 1.0 / 2, "streamed"}, {triad_ahead, 1.0 / 3, "streamed"}};
enum { PATTERN_COUNT = sizeof PATTERNS / sizeof *PATTERNS };

/* A sense-reversing barrier: it spins, because a sleeping thread would wake up too late. */
static atomic_int waiting, generation;
static int threads;
static void meet(void) {
  int now = atomic_load(&generation);
  if (atomic_fetch_add(&waiting, 1) + 1 == threads) {
    atomic_store(&waiting, 0);
    atomic_fetch_add(&generation, 1);
  } else {
    for (long spins = 0; atomic_load(&generation) == now; spins++)
      if (spins > 10000) sched_yield(); /* fewer cores than threads after all */
  }
}

typedef struct {
  _Alignas(128) int cpu;
  size_t arena_bytes;
  Vector *arena;
  size_t at; /* the next piece: samples go on where the last one ended, so that nothing is still in a cache */
  int pieces;
  double marks_ns[MAX_PIECES + 1]; /* before the first piece, and after each */
} Worker;
static Worker workers[MAX_THREADS];

/* What all workers do between two meetings. Atomic, although the barrier orders it: compilers move plain
 * loads across a call of a function that does not change the variable. */
static _Atomic(Pattern *) pattern; /* null: end */
static atomic_size_t share_vectors, piece_vectors, piece_passes, piece_count;

static void take_place(Worker *me) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(me->cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
  me->arena = mmap(0, me->arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (me->arena == MAP_FAILED) {
    perror("memory_peaks: mmap");
    exit(1);
  }
#ifdef MADV_HUGEPAGE
  madvise(me->arena, me->arena_bytes, MADV_HUGEPAGE);
#endif
  memset(me->arena, 1, me->arena_bytes);
}

/* A share that is smaller than a piece is gone through several times in each. */
static void sample(Worker *me) {
  Pattern *run = pattern;
  size_t vectors = share_vectors, of_piece = piece_vectors, again = piece_passes;
  me->pieces = 0;
  for (size_t left = piece_count; left > 0; left--) {
    me->marks_ns[me->pieces] = now_ns();
    for (size_t p = 0; p < again; p++) run(me->arena + me->at, of_piece);
    me->marks_ns[++me->pieces] = now_ns();
    me->at = me->at + 2 * of_piece <= vectors ? me->at + of_piece : 0;
  }
}

static void *work(void *argument) {
  take_place(argument);
  for (;;) {
    meet();
    if (!pattern) return 0;
    sample(argument);
    meet();
  }
}

/* The best rate of a thread, in bytes per ns, of the pieces between two moments; 0 without any. */
static double best_piece(const Worker *w, double from_ns, double to_ns, double nbytes) {
  double best = 0;
  for (int p = 0; p < w->pieces; p++) {
    double start = w->marks_ns[p], end = w->marks_ns[p + 1];
    if (start >= from_ns && end <= to_ns && nbytes / (end - start) > best) best = nbytes / (end - start);
  }
  return best;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct {
  double best, usual;
} Rates;

/* Of `run` over all threads, in bytes per ns. */
static Rates rates_of(Pattern *run, size_t share_bytes) {
  pattern = run;
  share_vectors = share_bytes / sizeof(Vector) / 48 * 48;
  piece_vectors = least(share_vectors, PIECE_BYTES / sizeof(Vector) / 48 * 48);
  size_t piece_bytes = piece_vectors * sizeof(Vector), share = share_vectors * sizeof(Vector);
  piece_passes = piece_bytes >= PIECE_BYTES / 2 ? 1 : PIECE_BYTES / piece_bytes;
  double nbytes = (double)(piece_bytes * piece_passes);
  piece_count = least(MAX_PIECES, (share > SAMPLE_BYTES ? share : SAMPLE_BYTES) / (piece_bytes * piece_passes) + 1);
  for (int t = 0; t < threads; t++) workers[t].at = 0;
  double best = 0, began = now_ns(), whole[MAX_SAMPLES];
  int counted = 0;
  for (int taken = 0; taken < MAX_SAMPLES; taken++) {
    meet();
    sample(&workers[0]);
    meet();
    double from = 0, to = 1e300, rate = 0, together = 0;
    for (int t = 0; t < threads; t++) {
      const Worker *w = &workers[t];
      if (w->marks_ns[0] > from) from = w->marks_ns[0];
      if (w->marks_ns[w->pieces] < to) to = w->marks_ns[w->pieces];
      together += nbytes * w->pieces / (w->marks_ns[w->pieces] - w->marks_ns[0]);
    }
    for (int t = 0; t < threads; t++) rate += best_piece(&workers[t], from, to, nbytes);
    /* The first sample of a size brings it into the caches. */
    if (taken > 0 && rate > best) best = rate;
    if (taken > 0) whole[counted++] = together;
    if (taken >= MIN_SAMPLES && now_ns() - began > BUDGET_NS) break;
  }
  qsort(whole, (size_t)counted, sizeof *whole, ascending);
  return (Rates){best, counted ? whole[counted / 2] : best};
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: memory_peaks CPU[,CPU..] BYTES..\n");
    return 2;
  }
  for (char *cpu = strtok(argv[1], ","); cpu && threads < MAX_THREADS; cpu = strtok(0, ","))
    workers[threads++].cpu = atoi(cpu);
  size_t largest = 0;
  for (int a = 2; a < argc; a++) {
    size_t share = strtoull(argv[a], 0, 10) / (size_t)threads;
    if (share > largest) largest = share;
  }
  size_t unit = 48 * sizeof(Vector);
  for (int t = 0; t < threads; t++) workers[t].arena_bytes = (largest / unit + 1) * unit;

  pthread_t ids[MAX_THREADS];
  for (int t = 1; t < threads; t++)
    if (pthread_create(&ids[t], 0, work, &workers[t])) {
      fprintf(stderr, "memory_peaks: cannot start a thread\n");
      return 1;
    }
  take_place(&workers[0]); /* this thread is worker 0 and leads the others */

  for (int a = 2; a < argc; a++) {
    size_t total = strtoull(argv[a], 0, 10), share = total / (size_t)threads;
    if (share < unit) share = unit;
    for (int p = 0; p < PATTERN_COUNT; p++) {
      Rates rates = rates_of(PATTERNS[p].run, share);
      printf("moved %d %zu %.6f %s %.4f %.4f\n", threads, total, PATTERNS[p].stored, PATTERNS[p].way, rates.best,
             rates.usual);
    }
    fflush(stdout);
  }
  pattern = 0;
  meet();
  for (int t = 1; t < threads; t++) pthread_join(ids[t], 0);
  return 0;
}
