/* What a worker process does in C: call an implementation, time its calls, look through its results, and leave
 * word when it crashes.
 *
 * The function that spreads an array of arguments over a kernel's entry point depends on the kernel's signature;
 * its text follows this file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void harness_call(void *function, void *const *arguments);

static int64_t harness_ns(struct timespec time) { return time.tv_sec * INT64_C(1000000000) + time.tv_nsec; }

static int64_t harness_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return harness_ns(now);
}

/* When loops of a call have ended (runtime/pool.h). */
struct harness_ends {
  int64_t count;
  struct timespec at[];
};

/* Displaces what the caches hold, where `flush` is not NULL. */
static void harness_flush(volatile char *flush, int64_t flush_bytes) {
  if (flush)
    for (int64_t i = 0; i < flush_bytes; i += 64) flush[i] = (char)(flush[i] + 1);
}

/* Adds to `lasted_ns` how long each loop of a call has taken, with what came before it. */
static void harness_call_looking(void *function, void *const *arguments, struct harness_ends *ends, int64_t *lasted_ns) {
  ends->count = 0;
  int64_t began = harness_now_ns();
  harness_call(function, arguments);
  for (int64_t loop = 0; loop < ends->count; ++loop) {
    int64_t ended = harness_ns(ends->at[loop]);
    lasted_ns[loop] += ended - began;
    began = ended;
  }
}

/* How often a thread of this process had to leave its CPU to others. */
static long harness_switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

/* How long the threads of this process have been waiting for a CPU, all together; negative where Linux does not say. */
static int64_t harness_waited_ns(void) {
  int64_t all_ns = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return -1;
  for (struct dirent *task; all_ns >= 0 && (task = readdir(tasks));) {
    char path[64], text[64];
    unsigned long long ran_ns, waited_ns;
    if (*task->d_name == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", task->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[length < 0 ? 0 : length] = 0;
    /* A kernel that does not count has run nothing. */
    int is_known = sscanf(text, "%llu %llu", &ran_ns, &waited_ns) == 2 && ran_ns;
    all_ns = is_known ? all_ns + (int64_t)waited_ns : -1;
  }
  closedir(tasks);
  return all_ns;
}

/* Takes samples of `batch` calls each until there are `most` of them or `budget_ns` have gone by; returns how many.
 * Of each sample in which a thread had to leave its CPU, also how long threads have waited for one, at most: negative
 * where that is not known, and 0 where none had to. And `loops` numbers for the loops of all calls, where `ends` is
 * not NULL. */
int64_t harness_time(void *function, void *const *arguments, int64_t batch, int64_t most, int64_t budget_ns,
                     char *flush, int64_t flush_bytes, int64_t *samples_ns, int64_t *lost_ns, struct harness_ends *ends,
                     int64_t loops, int64_t *lasted_ns) {
  int64_t start = harness_now_ns(), count = 0, before_waited_ns = harness_waited_ns();
  long before_switches = harness_switches();
  while (count < most) {
    harness_flush(flush, flush_bytes);
    int64_t before = harness_now_ns();
    for (int64_t call = 0; call < batch; ++call)
      if (ends)
        harness_call_looking(function, arguments, ends, lasted_ns + count * loops);
      else
        harness_call(function, arguments);
    int64_t after = harness_now_ns();
    long after_switches = harness_switches();
    samples_ns[count] = after - before;
    lost_ns[count] = 0;
    if (after_switches != before_switches) {
      int64_t waited_ns = harness_waited_ns();
      lost_ns[count] = before_waited_ns < 0 || waited_ns < 0 ? -1 : waited_ns - before_waited_ns;
      before_waited_ns = waited_ns;
    }
    ++count;
    before_switches = after_switches;
    if (after - start >= budget_ns) break;
  }
  return count;
}

/* Numbers of 16 bits, as f32. */
static float harness_bf16(uint16_t bits) {
  union { uint32_t bits; float number; } both = {.bits = (uint32_t)bits << 16};
  return both.number;
}

static float harness_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float unit = exponent ? (float)(UINT32_C(1) << (exponent - 1)) : 1.0f; /* in units of 2^-24 */
  float magnitude = exponent == 31 ? (mantissa ? __builtin_nanf("") : __builtin_inff())
                                   : (float)(mantissa + (exponent ? 1024 : 0)) * unit * 0x1p-24f;
  return bits & 0x8000 ? -magnitude : magnitude;
}

/* How many of `count` elements are off by more than `tolerance`; where no number is expected, there must be none. */
#define HARNESS_DIFFERING(name, type, wide, is_good)                                                       \
  int64_t name(const type *found, const type *expected, int64_t count, double tolerance) {                 \
    wide limit = (wide)tolerance;                                                                          \
    int64_t differing = 0;                                                                                 \
    for (int64_t start = 0; start < count; start += 4096) {                                                \
      int64_t end = start + 4096 < count ? start + 4096 : count;                                           \
      int32_t here = 0;                                                                                    \
      for (int64_t i = start; i < end; ++i) here += !(is_good) ;                                           \
      differing += here;                                                                                   \
    }                                                                                                      \
    return differing;                                                                                      \
  }
#define HARNESS_NEAR(label, type, wide, number, magnitude)                                                 \
  static int harness_near_##label(type found, type expected, wide limit) {                                 \
    wide f = number(found), e = number(expected);                                                          \
    return (magnitude(f - e) <= limit) | (f == e) | ((f != f) & (e != e));                                 \
  }                                                                                                        \
  HARNESS_DIFFERING(harness_differing_##label, type, wide, harness_near_##label(found[i], expected[i], limit))
HARNESS_NEAR(f32, float, float, , __builtin_fabsf)
HARNESS_NEAR(f64, double, double, , __builtin_fabs)
HARNESS_NEAR(bf16, uint16_t, float, harness_bf16, __builtin_fabsf)
HARNESS_NEAR(f16, uint16_t, float, harness_f16, __builtin_fabsf)

#define HARNESS_UNEQUAL(label, type) \
  HARNESS_DIFFERING(harness_differing_##label, type, double, ((void)limit, found[i] == expected[i]))
HARNESS_UNEQUAL(i8, int8_t)
HARNESS_UNEQUAL(i16, int16_t)
HARNESS_UNEQUAL(i32, int32_t)
HARNESS_UNEQUAL(i64, int64_t)
HARNESS_UNEQUAL(u8, uint8_t)
HARNESS_UNEQUAL(u16, uint16_t)
HARNESS_UNEQUAL(u32, uint32_t)
HARNESS_UNEQUAL(u64, uint64_t)
HARNESS_UNEQUAL(bool, uint8_t)

/* The same with a tolerance for each element: an infinite one lets anything pass, and where no number is expected there
 * must be none. */
#define HARNESS_APART(label, type, number)                                                                 \
  int64_t harness_apart_##label(const type *found, const type *expected, int64_t count,                    \
                                const float *tolerances) {                                                 \
    int64_t differing = 0;                                                                                 \
    for (int64_t i = 0; i < count; ++i) {                                                                  \
      double f = (double)number(found[i]), e = (double)number(expected[i]), t = tolerances[i];             \
      int is_near = t > 0 && (__builtin_fabs(f - e) <= t || t > 3.5e38);                                   \
      differing += !(found[i] == expected[i] || is_near || (f != f && e != e));                            \
    }                                                                                                      \
    return differing;                                                                                      \
  }
HARNESS_APART(f32, float, )
HARNESS_APART(f64, double, )
HARNESS_APART(bf16, uint16_t, harness_bf16)
HARNESS_APART(f16, uint16_t, harness_f16)
HARNESS_APART(i8, int8_t, )
HARNESS_APART(i16, int16_t, )
HARNESS_APART(i32, int32_t, )
HARNESS_APART(i64, int64_t, )
HARNESS_APART(u8, uint8_t, )
HARNESS_APART(u16, uint16_t, )
HARNESS_APART(u32, uint32_t, )
HARNESS_APART(u64, uint64_t, )
HARNESS_APART(bool, uint8_t, )

static int harness_report_fd = -1;

/* The signal and the address space in use ("11 123456 ..." in pages), then the signal's default action. */
static void harness_on_crash(int number, siginfo_t *info, void *context) {
  (void)info, (void)context;
  char text[160] = {(char)('0' + number / 10), (char)('0' + number % 10), ' '};
  int status = open("/proc/self/statm", O_RDONLY);
  ssize_t length = status < 0 ? 0 : read(status, text + 3, sizeof text - 3);
  if (write(harness_report_fd, text, (size_t)(3 + (length < 0 ? 0 : length))) < 0) _exit(126);
  raise(number); /* SA_RESETHAND has put the default action back; delivered on return */
}

/* Crashes are reported through `fd` from now on. */
void harness_watch(int fd) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
  static char stack[65536];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alternate, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = harness_on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND;
  harness_report_fd = fd;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) sigaction(signals[i], &action, NULL);
}
