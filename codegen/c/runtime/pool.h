/* A pool of pinned threads that share out the iterations of one loop in contiguous chunks.
 *
 * Worker i is pinned to CPU i of the affinity mask that the first caller has, spins for a moment between loops
 * and then sleeps. The calling thread takes the first chunk, for that long pinned to CPU 0 of this mask: elsewhere
 * it would share a CPU with a worker. The pool starts at the first call and ends when the library is unloaded.
 * Calls from several threads follow each other. A child process made by fork must not use it.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void pool_body(const void *arguments, int thread, int64_t begin, int64_t end);

enum { POOL_SPINS = 20000 };

static struct {
  pthread_mutex_t callers;
  int threads; /* the calling thread and the workers; 0 before the first call */
  pid_t process; /* whose workers they are */
  pthread_t workers[POOL_THREADS];
  int cpus[POOL_THREADS];
  pool_body *body; /* NULL: the workers end */
  const void *arguments;
  int64_t extent;
  atomic_uint round;   /* counts the loops: its change starts the workers */
  atomic_uint pending; /* workers that have not finished this round */
  atomic_int sleepers; /* threads that have given up spinning */
} pool = {.callers = PTHREAD_MUTEX_INITIALIZER};

#ifdef POOL_ENDS
/* When each of the first loops of a call has ended: for who measures, and sets `count` to 0 before a call. */
#include <time.h>
struct {
  int64_t count;
  struct timespec at[POOL_ENDS];
} pool_ends;

static void pool_ended(void) {
  if (pool_ends.count < POOL_ENDS) clock_gettime(CLOCK_MONOTONIC, &pool_ends.at[pool_ends.count++]);
}
#else
static inline void pool_ended(void) {}
#endif

static inline void pool_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Waits until *word differs from `old`. */
static void pool_wait(atomic_uint *word, unsigned old) {
  for (int spin = 0; spin < POOL_SPINS; ++spin) {
    if (atomic_load_explicit(word, memory_order_acquire) != old) return;
    pool_pause();
  }
  atomic_fetch_add(&pool.sleepers, 1);
  while (atomic_load(word) == old) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
  atomic_fetch_sub(&pool.sleepers, 1);
}

/* Called after a change of *word: whoever does not see the change is counted among the sleepers. */
static void pool_wake(atomic_uint *word) {
  if (atomic_load(&pool.sleepers))
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, POOL_THREADS, NULL, NULL, 0);
}

static void pool_chunk(int thread) {
  int64_t begin = pool.extent * thread / pool.threads;
  int64_t end = pool.extent * (thread + 1) / pool.threads;
  pool.body(pool.arguments, thread, begin, end);
}

static void pool_pin(int thread) {
  cpu_set_t cpu;
  CPU_ZERO(&cpu);
  CPU_SET(pool.cpus[thread], &cpu);
  sched_setaffinity(0, sizeof cpu, &cpu);
}

static void *pool_work(void *argument) {
  int thread = (int)(intptr_t)argument;
  pool_pin(thread);
  for (unsigned round = 0;; ++round) {
    pool_wait(&pool.round, round);
    if (!pool.body) return NULL;
    pool_chunk(thread);
    if (atomic_fetch_sub(&pool.pending, 1) == 1) pool_wake(&pool.pending);
  }
}

static void pool_start(void) {
  cpu_set_t allowed;
  int count = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE && count < POOL_THREADS; ++cpu)
      if (CPU_ISSET(cpu, &allowed)) pool.cpus[count++] = cpu;
  pool.process = getpid();
  int started = 1;
  while (started < count &&
         pthread_create(&pool.workers[started], NULL, pool_work, (void *)(intptr_t)started) == 0)
    ++started;
  pool.threads = started;
}

static void pool_begin_round(void) {
  atomic_store_explicit(&pool.pending, (unsigned)(pool.threads - 1), memory_order_relaxed);
  atomic_fetch_add(&pool.round, 1);
  pool_wake(&pool.round);
}

/* Moves the calling thread to its CPU; true where `before` has to be restored. A thread that is there already
 * stays: the other CPUs are taken. One that may not run there has been put elsewhere on purpose. */
static int pool_pin_caller(cpu_set_t *before) {
  if (sched_getcpu() == pool.cpus[0]) return 0;
  if (sched_getaffinity(0, sizeof *before, before) != 0 || !CPU_ISSET(pool.cpus[0], before)) return 0;
  pool_pin(0);
  return 1;
}

/* Runs `body` once for each thread, on a chunk that may be empty; returns how many there are. */
static int pool_run(pool_body *body, const void *arguments, int64_t extent) {
  pthread_mutex_lock(&pool.callers);
  if (!pool.threads) pool_start();
  pool.body = body;
  pool.arguments = arguments;
  pool.extent = extent;
  cpu_set_t before;
  int is_pinned = pool_pin_caller(&before);
  pool_begin_round();
  pool_chunk(0);
  for (unsigned left; (left = atomic_load_explicit(&pool.pending, memory_order_acquire)) != 0;)
    pool_wait(&pool.pending, left);
  if (is_pinned) sched_setaffinity(0, sizeof before, &before);
  int threads = pool.threads;
  pool_ended();
  pthread_mutex_unlock(&pool.callers);
  return threads;
}

__attribute__((destructor)) static void pool_end(void) {
  if (!pool.threads || pool.process != getpid()) return; /* of a child that was forked, none of them is there */
  pool.body = NULL;
  pool_begin_round();
  for (int i = 1; i < pool.threads; ++i) pthread_join(pool.workers[i], NULL);
}
