/* What one core can do at most: independent arithmetic instructions, loads and stores in the L1 cache, and
 * the latency of a chain of accumulations, on the CPU that the argument names. Built with the flags that
 * candidates are built with, and -DVECTOR_BYTES. Prints one line for each measurement:
 *
 *     arithmetic <dtype> <lanes> <unit> <instructions per ns>
 *     chain <dtype> <lanes> add|fma <ns for one step>
 *     window f32 1 - <accumulations that wait for each other and that the core looks beyond>
 *     load|store <dtype> <bytes> - <instructions per ns>
 *
 * Each figure is the best of many short samples: between interruptions, at the highest clock seen. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLES = 300, STEPS = 1000, CHAINS = 12, BUFFER_BYTES = 8192 };

#if defined __x86_64__ || defined __i386__
#define FLOATING "v"
#else
#define FLOATING "w"
#endif
#define GENERAL "r"

/* The compiler must hold `x` in a register here, and may know nothing about its value afterwards. */
#define OPAQUE(reg, x) __asm__ volatile("" : "+" reg(x))
/* The compiler must have loaded `x` into a register here. */
#define NEEDED(reg, x) __asm__ volatile("" : : reg(x))

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* The least time of `run`, in ns. */
static double best_ns(void (*run)(void)) {
  double best = 1e30;
  for (int s = 0; s < SAMPLES; s++) {
    double start = now_ns();
    run();
    double taken = now_ns() - start;
    if (taken < best) best = taken;
  }
  return best;
}

#define MUL(c) c = c * a;
#define ADD(c) c = c + b;
#define FMA(c) c = c * a + b;
#define ACC(c) c = a * b + c;

/* CHAINS independent chains, alternately stepped by EVEN and by ODD; two rounds in a loop body. */
#define ROUND(reg, EVEN, ODD)                                                                     \
  EVEN(c0) OPAQUE(reg, c0); ODD(c1) OPAQUE(reg, c1); EVEN(c2) OPAQUE(reg, c2);                    \
  ODD(c3) OPAQUE(reg, c3); EVEN(c4) OPAQUE(reg, c4); ODD(c5) OPAQUE(reg, c5);                     \
  EVEN(c6) OPAQUE(reg, c6); ODD(c7) OPAQUE(reg, c7); EVEN(c8) OPAQUE(reg, c8);                    \
  ODD(c9) OPAQUE(reg, c9); EVEN(c10) OPAQUE(reg, c10); ODD(c11) OPAQUE(reg, c11);
#define THROUGHPUT(name, T, reg, EVEN, ODD)                                                       \
  static void name(void) {                                                                        \
    T a = (T){0} + 1, b = (T){0};                                                                 \
    OPAQUE(reg, a); OPAQUE(reg, b);                                                               \
    T c0 = b, c1 = b, c2 = b, c3 = b, c4 = b, c5 = b, c6 = b, c7 = b, c8 = b, c9 = b, c10 = b,    \
      c11 = b;                                                                                    \
    for (int t = 0; t < STEPS; t++) { ROUND(reg, EVEN, ODD) ROUND(reg, EVEN, ODD) }               \
  }
#define CHAIN(name, T, reg, STEP)                                                                 \
  static void name(void) {                                                                        \
    T a = (T){0} + 1, b = (T){0};                                                                 \
    OPAQUE(reg, a); OPAQUE(reg, b);                                                               \
    T c = b;                                                                                      \
    for (int t = 0; t < STEPS; t++) {                                                             \
      STEP(c) OPAQUE(reg, c); STEP(c) OPAQUE(reg, c); STEP(c) OPAQUE(reg, c);                     \
      STEP(c) OPAQUE(reg, c);                                                                     \
    }                                                                                             \
  }

static _Alignas(64) unsigned char buffer[BUFFER_BYTES];

/* A sum of products as candidates have it: the compiler may fuse them or not, as it does there. */
#define REDUCE(name, T, reg)                                                                      \
  static void name(void) {                                                                        \
    const T *a = (const T *)buffer, *b = a + REDUCED(T);                                          \
    OPAQUE(GENERAL, a); OPAQUE(GENERAL, b);                                                       \
    T c = (T){0};                                                                                 \
    for (int pass = 0; pass < STEPS / 50; pass++)                                                 \
      for (unsigned i = 0; i < REDUCED(T); i++) c = a[i] * b[i] + c;                              \
    NEEDED(reg, c);                                                                               \
  }
#define REDUCED(T) (BUFFER_BYTES / sizeof(T) / 2)

/* Sums that wait for nothing but their own terms: the next one begins as soon as the core sees it. The loops
 * are short enough for their ends to be foreseen. */
enum { SUMS = 32, TERMS = 1024 };
#define SIXTEEN(X) X X X X X X X X X X X X X X X X
static void many_sums(void) {
  float b = 0;
  OPAQUE(FLOATING, b);
  for (int s = 0; s < SUMS; s++) {
    float c = b;
    for (int t = 0; t < TERMS / 64; t++) {
      SIXTEEN(ADD(c) OPAQUE(FLOATING, c);) SIXTEEN(ADD(c) OPAQUE(FLOATING, c);)
      SIXTEEN(ADD(c) OPAQUE(FLOATING, c);) SIXTEEN(ADD(c) OPAQUE(FLOATING, c);)
    }
    NEEDED(FLOATING, c);
  }
}

#define EIGHT(ONE) ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7)
#define ACCESSES(load_name, store_name, T, reg)                                                   \
  static void load_name(void) {                                                                   \
    for (int pass = 0; pass < STEPS / 50; pass++) {                                               \
      const volatile T *p = (const volatile T *)buffer;                                           \
      for (unsigned i = 0; i < BUFFER_BYTES / sizeof(T); i += 8, p += 8) { EIGHT(LOAD_##reg) }    \
    }                                                                                             \
  }                                                                                               \
  static void store_name(void) {                                                                  \
    T x = (T){0};                                                                                 \
    OPAQUE(reg##_REG, x);                                                                         \
    for (int pass = 0; pass < STEPS / 50; pass++) {                                               \
      volatile T *p = (volatile T *)buffer;                                                       \
      for (unsigned i = 0; i < BUFFER_BYTES / sizeof(T); i += 8, p += 8) { EIGHT(STORE) }         \
    }                                                                                             \
  }
#define F_REG FLOATING
#define G_REG GENERAL
#define LOAD_F(k) { __typeof__(*p + 0) x = p[k]; NEEDED(F_REG, x); }
#define LOAD_G(k) { __typeof__(*p + 0) x = p[k]; NEEDED(G_REG, x); }
#define STORE(k) p[k] = x;

/* One element type at one width: every unit, the two chains, loads and stores. */
#define WIDTH(tag, T, reg)                                                                        \
  THROUGHPUT(tag##_fma, T, reg##_REG, FMA, FMA)                                                   \
  THROUGHPUT(tag##_mul, T, reg##_REG, MUL, MUL)                                                   \
  THROUGHPUT(tag##_add, T, reg##_REG, ADD, ADD)                                                   \
  THROUGHPUT(tag##_fma_add, T, reg##_REG, FMA, ADD)                                               \
  THROUGHPUT(tag##_mul_add, T, reg##_REG, MUL, ADD)                                               \
  CHAIN(tag##_chain_add, T, reg##_REG, ADD)                                                       \
  CHAIN(tag##_chain_acc, T, reg##_REG, ACC)                                                       \
  REDUCE(tag##_reduce, T, reg##_REG)                                                              \
  ACCESSES(tag##_load, tag##_store, T, reg)

#define VECTOR(name, scalar, bytes) typedef scalar name __attribute__((vector_size(bytes)));
VECTOR(f32x4, float, 16)
VECTOR(f64x2, double, 16)
VECTOR(i32x4, uint32_t, 16) /* unsigned: the same instructions, and overflow is defined */
WIDTH(f32, float, F)
WIDTH(f64, double, F)
WIDTH(i32, uint32_t, G)
WIDTH(f32v16, f32x4, F)
WIDTH(f64v16, f64x2, F)
WIDTH(i32v16, i32x4, F)
#if VECTOR_BYTES >= 32
VECTOR(f32x8, float, 32)
VECTOR(f64x4, double, 32)
VECTOR(i32x8, uint32_t, 32)
WIDTH(f32v32, f32x8, F)
WIDTH(f64v32, f64x4, F)
WIDTH(i32v32, i32x8, F)
#endif
#if VECTOR_BYTES >= 64
VECTOR(f32x16, float, 64)
VECTOR(f64x8, double, 64)
VECTOR(i32x16, uint32_t, 64)
WIDTH(f32v64, f32x16, F)
WIDTH(f64v64, f64x8, F)
WIDTH(i32v64, i32x16, F)
#endif

/* Divisions, roots, and the greater of two: by the instructions that candidates name, where there are any. */
#if !defined __x86_64__
#define ROOTS_AND_EXTREMES_16(X)
#define ROOTS_AND_EXTREMES_32(X)
#else
#define ROOTS_AND_EXTREMES_16(X)                                                                  \
  X(root, f32, 1, float, __builtin_ia32_sqrtss((f32x4){c})[0])                                    \
  X(root, f64, 1, double, __builtin_ia32_sqrtsd((f64x2){c})[0])                                   \
  X(root, f32, 4, f32x4, __builtin_ia32_sqrtps(c))                                                \
  X(root, f64, 2, f64x2, __builtin_ia32_sqrtpd(c))                                                \
  X(extreme, f32, 4, f32x4, __builtin_ia32_maxps(c, a))                                           \
  X(extreme, f64, 2, f64x2, __builtin_ia32_maxpd(c, a))
#define ROOTS_AND_EXTREMES_32(X)                                                                  \
  X(root, f32, 8, f32x8, __builtin_ia32_sqrtps256(c))                                             \
  X(root, f64, 4, f64x4, __builtin_ia32_sqrtpd256(c))                                             \
  X(extreme, f32, 8, f32x8, __builtin_ia32_maxps256(c, a))                                        \
  X(extreme, f64, 4, f64x4, __builtin_ia32_maxpd256(c, a))
#endif
#if defined __x86_64__ && !defined __clang__ /* which calls these otherwise */
#define ROOTS_AND_EXTREMES_64(X)                                                                  \
  X(root, f32, 16, f32x16, __builtin_ia32_sqrtps512_mask(c, c, -1, 4))                            \
  X(root, f64, 8, f64x8, __builtin_ia32_sqrtpd512_mask(c, c, -1, 4))                              \
  X(extreme, f32, 16, f32x16, __builtin_ia32_maxps512_mask(c, a, c, -1, 4))                       \
  X(extreme, f64, 8, f64x8, __builtin_ia32_maxpd512_mask(c, a, c, -1, 4))
#else
#define ROOTS_AND_EXTREMES_64(X)
#endif
#define RARE_16(X)                                                                                \
  X(divide, f32, 1, float, c / a) X(divide, f64, 1, double, c / a)                                \
  X(divide, f32, 4, f32x4, c / a) X(divide, f64, 2, f64x2, c / a) ROOTS_AND_EXTREMES_16(X)
#if VECTOR_BYTES >= 32
#define RARE_32(X) X(divide, f32, 8, f32x8, c / a) X(divide, f64, 4, f64x4, c / a) ROOTS_AND_EXTREMES_32(X)
#else
#define RARE_32(X)
#endif
#if VECTOR_BYTES >= 64
#define RARE_64(X) X(divide, f32, 16, f32x16, c / a) X(divide, f64, 8, f64x8, c / a) ROOTS_AND_EXTREMES_64(X)
#else
#define RARE_64(X)
#endif
#define RARE(X) RARE_16(X) RARE_32(X) RARE_64(X)

enum { divide_STEPS = STEPS / 5, root_STEPS = STEPS / 5, extreme_STEPS = 2 * STEPS };
#define TURN(step, c) c = step(c, a); OPAQUE(FLOATING, c);
#define DEFINE(unit, dtype, lanes, T, value)                                                      \
  static inline T unit##_##dtype##_##lanes##_step(T c, T a) { (void)a; return value; }            \
  static void unit##_##dtype##_##lanes(void) {                                                    \
    T a = (T){0} + 1;                                                                             \
    OPAQUE(FLOATING, a);                                                                          \
    T c0 = a, c1 = a, c2 = a, c3 = a, c4 = a, c5 = a, c6 = a, c7 = a, c8 = a, c9 = a, c10 = a,    \
      c11 = a;                                                                                    \
    for (int t = 0; t < unit##_STEPS; t++) { TURNS(unit##_##dtype##_##lanes##_step) }             \
  }
#define TURNS(step)                                                                               \
  TURN(step, c0) TURN(step, c1) TURN(step, c2) TURN(step, c3) TURN(step, c4) TURN(step, c5)       \
  TURN(step, c6) TURN(step, c7) TURN(step, c8) TURN(step, c9) TURN(step, c10) TURN(step, c11)
RARE(DEFINE)

#define REPORT_RARE(unit, dtype, lanes, T, value)                                                 \
  printf("arithmetic %s %d %s %.4f\n", #dtype, lanes, #unit,                                      \
         (double)(CHAINS * unit##_STEPS) / best_ns(unit##_##dtype##_##lanes));

static void report_arithmetic(const char *dtype, int lanes, const char *unit, void (*run)(void)) {
  printf("arithmetic %s %d %s %.4f\n", dtype, lanes, unit, 2.0 * CHAINS * STEPS / best_ns(run));
}

static void report_chain(const char *dtype, int lanes, const char *op, void (*run)(void), double steps) {
  printf("chain %s %d %s %.4f\n", dtype, lanes, op, best_ns(run) / steps);
}

static void report_window(void) {
  double step = best_ns(f32_chain_add) / (4.0 * STEPS);
  printf("window f32 1 - %.1f\n", TERMS - best_ns(many_sums) / SUMS / step);
}

static void report_access(const char *kind, const char *dtype, int nbytes, void (*run)(void)) {
  printf("%s %s %d - %.4f\n", kind, dtype, nbytes, (double)(STEPS / 50) * (BUFFER_BYTES / nbytes) / best_ns(run));
}

#define REPORT(tag, dtype, item_bytes, nbytes)                                                    \
  report_arithmetic(dtype, nbytes / item_bytes, "multiply", tag##_fma);                           \
  report_arithmetic(dtype, nbytes / item_bytes, "multiply", tag##_mul);                           \
  report_arithmetic(dtype, nbytes / item_bytes, "add", tag##_add);                                \
  report_arithmetic(dtype, nbytes / item_bytes, "any", tag##_fma_add);                            \
  report_arithmetic(dtype, nbytes / item_bytes, "any", tag##_mul_add);                            \
  report_chain(dtype, nbytes / item_bytes, "add", tag##_chain_add, 4.0 * STEPS);                  \
  report_chain(dtype, nbytes / item_bytes, "add", tag##_chain_acc, 4.0 * STEPS); /* a constant product */                 \
  report_chain(dtype, nbytes / item_bytes, "fma", tag##_reduce, STEPS / 50 * (BUFFER_BYTES / 2.0 / (nbytes))); \
  report_access("load", dtype, nbytes, tag##_load);                                               \
  report_access("store", dtype, nbytes, tag##_store);                                             \
  fflush(stdout);

int main(int argc, char **argv) {
  cpu_set_t set;
  if (argc != 2) {
    fprintf(stderr, "usage: core_peaks CPU\n");
    return 2;
  }
  CPU_ZERO(&set);
  CPU_SET(atoi(argv[1]), &set);
  sched_setaffinity(0, sizeof set, &set);
  for (int s = 0; s < 20; s++) best_ns(f32_fma); /* until the clock has risen */
  report_window();
  REPORT(f32, "f32", 4, 4)
  REPORT(f64, "f64", 8, 8)
  REPORT(i32, "i32", 4, 4)
  REPORT(f32v16, "f32", 4, 16)
  REPORT(f64v16, "f64", 8, 16)
  REPORT(i32v16, "i32", 4, 16)
#if VECTOR_BYTES >= 32
  REPORT(f32v32, "f32", 4, 32)
  REPORT(f64v32, "f64", 8, 32)
  REPORT(i32v32, "i32", 4, 32)
#endif
#if VECTOR_BYTES >= 64
  REPORT(f32v64, "f32", 4, 64)
  REPORT(f64v64, "f64", 8, 64)
  REPORT(i32v64, "i32", 4, 64)
#endif
  RARE(REPORT_RARE)
  return 0;
}
