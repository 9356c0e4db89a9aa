/* The least time of a parallel loop that does nothing: what it takes to wake the threads and to wait for them.
 * Built behind `pool.h`, as candidates are. Prints
 *
 *     start <ns>
 *
 * Best of many calls, which follow each other so closely that no thread sleeps. */
#include <stdio.h>
#include <time.h>

enum { CALLS = 20000 };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void nothing(const void *arguments, int thread, int64_t begin, int64_t end) {
  (void)arguments, (void)thread, (void)begin, (void)end;
  __asm__ volatile("" : : : "memory");
}

int main(void) {
  double best = 1e30;
  for (int call = 0; call < CALLS; call++) {
    double start = now_ns();
    pool_run(nothing, 0, POOL_THREADS);
    double taken = now_ns() - start;
    if (taken < best) best = taken;
  }
  printf("start %.1f\n", best);
  return 0;
}
