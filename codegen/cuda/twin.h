/* CUDA C++ on a CPU: the threads of a block are fibers that take turns at barriers.
 *
 * A file of kernels and its host function is compiled behind this header as C++. Blocks run one after the other. The
 * threads of a block run in an order that `twin_order` names: 0 ascending, 1 descending, 2 and above shuffled, another way
 * each round. Each runs until its next barrier, its end, or an exchange for which other threads of its warp still have to
 * come; a barrier, or an exchange, that some of them never come to ends the process. Memory that a block shares holds
 * numbers that are not numbers when the block begins. What runs at the same time on a GPU, without a barrier in between,
 * is seen here as far as the order shows it, and else by `races.h`.
 */
#ifndef CUDA_TWIN
#define CUDA_TWIN
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // of libstdc++: the headers of C as they are, which compile in a third of the time
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__

struct twin_index { unsigned x; };
static twin_index blockIdx, threadIdx;

/* When it is: launches and blocks so far, barriers of this block; and launches when all was forgotten. */
static struct {
  unsigned launches, blocks, barriers, forgotten;
  bool is_in_kernel;
} twin_now;

/* For `races.h`, which is told of each access in a kernel; not of what the twin does itself. */
enum twin_kind { TWIN_READS, TWIN_WRITES, TWIN_ADDS };
#if defined(__SANITIZE_THREAD__)
#define TWIN_UNSEEN __attribute__((no_sanitize_thread))
static void twin_see(const void *place, size_t size, twin_kind kind);
static void twin_pass(unsigned threads);
#else
#define TWIN_UNSEEN
static inline void twin_see(const void *, size_t, twin_kind) {}
static inline void twin_pass(unsigned) {}
#endif

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(2) uchar2 { uint8_t x, y; };
struct alignas(4) uchar4 { uint8_t x, y, z, w; };
struct alignas(16) ulonglong2 { uint64_t x, y; };
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(4) ushort2 { uint16_t x, y; };
struct alignas(8) ushort4 { uint16_t x, y, z, w; };
/* Inlined always: of a call that is given a vector from memory, or stores one, a watched twin is not told. */
static __forceinline__ float2 make_float2(float x, float y) { return {x, y}; }
static __forceinline__ float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static __forceinline__ double2 make_double2(double x, double y) { return {x, y}; }
static __forceinline__ uchar2 make_uchar2(uint8_t x, uint8_t y) { return {x, y}; }
static __forceinline__ uchar4 make_uchar4(uint8_t x, uint8_t y, uint8_t z, uint8_t w) { return {x, y, z, w}; }
static __forceinline__ ulonglong2 make_ulonglong2(uint64_t x, uint64_t y) { return {x, y}; }
static __forceinline__ uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
static __forceinline__ uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
static __forceinline__ ushort2 make_ushort2(uint16_t x, uint16_t y) { return {x, y}; }
static __forceinline__ ushort4 make_ushort4(uint16_t x, uint16_t y, uint16_t z, uint16_t w) { return {x, y, z, w}; }

template <class To, class From> static inline To twin_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from);
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline float __int_as_float(int32_t bits) { return twin_bits<float>(bits); }
static inline float __uint_as_float(uint32_t bits) { return twin_bits<float>(bits); }
static inline uint32_t __float_as_uint(float x) { return twin_bits<uint32_t>(x); }
static inline int32_t __float_as_int(float x) { return twin_bits<int32_t>(x); }
static inline long long __double_as_longlong(double x) { return twin_bits<long long>(x); }
static inline double __longlong_as_double(long long bits) { return twin_bits<double>(bits); }
#ifdef __FLT16_MANT_DIG__
static inline float twin_from_f16(uint16_t bits) { return (float)twin_bits<_Float16>(bits); }
static inline uint16_t twin_to_f16(float x) { return twin_bits<uint16_t>((_Float16)x); }
#endif

/* What need not stay in caches. */
template <class Value> static __forceinline__ Value __ldcs(const Value *place) { return *place; }
template <class Element, class Value> static __forceinline__ void __stcs(Element *place, Value value) { *place = value; }

/* Threads take turns: none comes between. Integers wrap around. */
template <class Value> TWIN_UNSEEN static void atomicAdd(Value *place, Value value) {
  twin_see(place, sizeof *place, TWIN_ADDS);
  *place += value;
}
TWIN_UNSEEN static void atomicAdd(int32_t *place, uint32_t value) {
  twin_see(place, sizeof *place, TWIN_ADDS);
  *place = (int32_t)((uint32_t)*place + value);
}
template <class Word> TWIN_UNSEEN static Word atomicCAS(Word *place, Word before, Word after) {
  Word found;
  twin_see(place, sizeof *place, TWIN_ADDS);
  memcpy(&found, place, sizeof found);
  if (found == before) memcpy(place, &after, sizeof after);
  return found;
}

#define TWIN_EXTREME(Word)                                                       \
  TWIN_UNSEEN static void atomicMax(Word *place, Word value) {                   \
    Word before;                                                                 \
    twin_see(place, sizeof *place, TWIN_ADDS);                                   \
    memcpy(&before, place, sizeof before);                                       \
    if (value > before) memcpy(place, &value, sizeof value);                     \
  }                                                                              \
  TWIN_UNSEEN static void atomicMin(Word *place, Word value) {                   \
    Word before;                                                                 \
    twin_see(place, sizeof *place, TWIN_ADDS);                                   \
    memcpy(&before, place, sizeof before);                                       \
    if (value < before) memcpy(place, &value, sizeof value);                     \
  }
TWIN_EXTREME(int)
TWIN_EXTREME(unsigned)
TWIN_EXTREME(long long)
TWIN_EXTREME(unsigned long long)

/* ---- Fibers ---- */

#ifndef TWIN_STACK_BYTES
#define TWIN_STACK_BYTES (64 << 10)
#endif
#define TWIN_THREADS 1024
#define TWIN_STACKS_BYTES ((size_t)TWIN_STACK_BYTES * TWIN_THREADS)

/* Keeps what a call must keep, goes on at the other stack. */
extern "C" void twin_switch(void **from, void *to) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
__asm__(R"(
.pushsection .text
.hidden twin_switch
.globl twin_switch
.type twin_switch, @function
twin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size twin_switch, .-twin_switch
.popsection
)");
#else
#error "the twin of CUDA code runs on x86-64"
#endif

struct twin_thread {
  void *stack;
  bool is_done, is_waiting;
};

extern "C" {
unsigned twin_order = TWIN_ORDER;
}

static twin_thread twin_threads[TWIN_THREADS];
static void *twin_scheduler;
static void (*twin_body)(void *);
static void *twin_arguments;
static char *twin_stacks;

/* The sanitizer of addresses is told which stack is in use. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
static const void *twin_scheduler_bottom;
static size_t twin_scheduler_bytes;
static void *twin_scheduler_fake, *twin_thread_fake[TWIN_THREADS];
#define TWIN_LEAVES(fake, bottom, nbytes) __sanitizer_start_switch_fiber(fake, bottom, nbytes)
#define TWIN_ARRIVES(fake, bottom, nbytes) __sanitizer_finish_switch_fiber(fake, bottom, nbytes)
#else
#define TWIN_LEAVES(...)
#define TWIN_ARRIVES(...)
#define ASAN_POISON_MEMORY_REGION(...)
#define ASAN_UNPOISON_MEMORY_REGION(...)
#endif

static void twin_yield(void) {
  unsigned thread = threadIdx.x;
  TWIN_LEAVES(twin_threads[thread].is_done ? NULL : &twin_thread_fake[thread], twin_scheduler_bottom, twin_scheduler_bytes);
  twin_switch(&twin_threads[thread].stack, twin_scheduler);
  TWIN_ARRIVES(twin_thread_fake[thread], &twin_scheduler_bottom, &twin_scheduler_bytes);
}

static void twin_resume(unsigned thread) {
  TWIN_LEAVES(&twin_scheduler_fake, twin_stacks + (size_t)thread * TWIN_STACK_BYTES, TWIN_STACK_BYTES);
  twin_switch(&twin_scheduler, twin_threads[thread].stack);
  TWIN_ARRIVES(twin_scheduler_fake, NULL, NULL);
}

static void twin_enter(void) {
  TWIN_ARRIVES(NULL, &twin_scheduler_bottom, &twin_scheduler_bytes);
  twin_body(twin_arguments);
  twin_threads[threadIdx.x].is_done = true;
  twin_yield();
  abort();
}

static unsigned twin_barriers;

static void __syncthreads(void) {
  ++twin_barriers;
  twin_threads[threadIdx.x].is_waiting = true;
  twin_yield();
}

/* What the threads give each other, by how many of a warp exchange: a thread may do so with a few of them more often than
 * the others have. Two times, since it may be one exchange ahead. */
struct twin_gift {
  uint64_t words[3];
};
static twin_gift twin_given[33][2][TWIN_THREADS];
static unsigned twin_masks[33][2][TWIN_THREADS], twin_exchanges[TWIN_THREADS][33];
static unsigned twin_shuffles, twin_inside, twin_block_threads;

static void twin_fail(const char *what);

/* What the threads of a warp have given, by their number in the block: those of a mask, all of which come to it. */
static const twin_gift *twin_exchange(const void *value, size_t size, unsigned mask = ~0u) {
  unsigned count = __builtin_popcount(mask), warp = threadIdx.x / 32 * 32;
  unsigned own = ++twin_exchanges[threadIdx.x][count], half = own % 2;
  memcpy(&twin_given[count][half][threadIdx.x], value, size);
  twin_masks[count][half][threadIdx.x] = mask;
  ++twin_shuffles;
  ++twin_inside;
  for (unsigned other = warp; other < warp + 32 && other < twin_block_threads; ++other) {
    if (!(mask >> other % 32 & 1)) continue;
    while (twin_exchanges[other][count] < own) twin_yield();
    if (twin_masks[count][half][other] != mask) twin_fail("an exchange in which threads of a warp have different masks");
  }
  --twin_inside;
  return twin_given[count][half];
}

template <class Value> static Value __shfl_xor_sync(unsigned mask, Value value, int distance) {
  const twin_gift *given = twin_exchange(&value, sizeof value, mask);
  unsigned other = threadIdx.x ^ distance;
  if (!(mask >> threadIdx.x % 32 & 1) || !(mask >> other % 32 & 1)) twin_fail("a shuffle with a thread that its mask leaves out");
  memcpy(&value, &given[other], sizeof value);
  return value;
}

/* A matrix of shared memory, the n-th row of which begins where the n-th thread of the warp says. */
template <int is_transposed, class... Bits> static void load_matrices(const void *row, Bits &...bits) {
  const twin_gift *given = twin_exchange(&row, sizeof row) + threadIdx.x / 32 * 32;
  unsigned lane = threadIdx.x % 32, first = 0;
  uint32_t *const all[] = {&bits...};
  for (uint32_t *found : all) {
    *found = 0;
    for (unsigned n = 0; n < 2; ++n) {
      unsigned at[2] = {lane / 4, lane % 4 * 2 + n};
      const char *begin;
      memcpy(&begin, &given[first + at[is_transposed]], sizeof begin);
      if ((uintptr_t)begin % 16) twin_fail("a row of a matrix that begins at no multiple of 16");
      *found |= (uint32_t)((const uint16_t *)begin)[at[1 - is_transposed]] << 16 * n;
    }
    first += 8;
  }
}

struct twin_bf16 {
  enum { terms = 2 };
  static float at(uint32_t bits, unsigned n) { return twin_bits<float>(n ? bits & 0xffff0000u : bits << 16); }
};
#ifdef __FLT16_MANT_DIG__
struct twin_f16 {
  enum { terms = 2 };
  static float at(uint32_t bits, unsigned n) { return twin_from_f16((uint16_t)(bits >> 16 * n)); }
};
#endif
/* The other bits of an operand are not looked at. */
struct twin_tf32 {
  enum { terms = 1 };
  static float at(uint32_t bits, unsigned) { return twin_bits<float>(bits & ~0x1fffu); }
};

/* Adds the product of two matrices that the threads of a warp have to a third one: of fragments of rows, and of terms. */
template <class Operand, int rows, int terms>
TWIN_UNSEEN static void twin_multiply(float *const *result, const uint32_t *a, const uint32_t *b) {
  uint32_t own[6] = {};
  memcpy(own, a, rows * terms * sizeof *a);
  memcpy(own + 4, b, terms * sizeof *b);
  const twin_gift *given = twin_exchange(own, sizeof own) + threadIdx.x / 32 * 32;
  unsigned lane = threadIdx.x % 32;
  for (int row = 0; row < rows; ++row)
    for (unsigned column = 0; column < 2; ++column)
      for (int term = 0; term < terms; ++term)
        for (unsigned part = 0; part < 4; ++part) {
          uint32_t of_a[6], of_b[6];
          memcpy(of_a, &given[lane / 4 * 4 + part], sizeof of_a);
          memcpy(of_b, &given[(lane % 4 * 2 + column) * 4 + part], sizeof of_b);
          for (unsigned n = 0; n < Operand::terms; ++n)
            *result[row * 2 + column] += Operand::at(of_a[term * rows + row], n) * Operand::at(of_b[4 + term], n);
        }
}

/* Copies that are under way: what a thread has begun, group by group. They are made when it waits for them, and not before. */
struct twin_copy {
  void *to;
  const void *from;
  unsigned bytes, group;
};
struct twin_queue {
  twin_copy *copies;
  unsigned end, room, groups;
};
static twin_queue twin_queues[TWIN_THREADS];

template <int bytes> TWIN_UNSEEN static void copy_ahead(void *to, const void *from) {
  twin_queue &queue = twin_queues[threadIdx.x];
  if ((uintptr_t)to % bytes || (uintptr_t)from % bytes) twin_fail("a copy that begins at no multiple of its size");
  if (queue.end == queue.room) {
    queue.room = queue.room ? 2 * queue.room : 64;
    queue.copies = (twin_copy *)realloc(queue.copies, queue.room * sizeof(twin_copy));
    if (!queue.copies) twin_fail("no memory for copies");
  }
  queue.copies[queue.end++] = {to, from, bytes, queue.groups};
  twin_see(from, bytes, TWIN_READS);
  twin_see(to, bytes, TWIN_WRITES);
}

static void commit_copies(void) { ++twin_queues[threadIdx.x].groups; }

template <int groups> TWIN_UNSEEN static void wait_for_copies(void) {
  twin_queue &queue = twin_queues[threadIdx.x];
  unsigned done = 0;
  for (; done != queue.end && queue.copies[done].group + groups < queue.groups; ++done)
    memcpy(queue.copies[done].to, queue.copies[done].from, queue.copies[done].bytes);
  queue.end -= done;
  if (done && queue.end) memmove(queue.copies, queue.copies + done, queue.end * sizeof(twin_copy));
}

extern "C" float4 shared_memory[];
alignas(16) float4 shared_memory[TWIN_SHARED_BYTES / 16 + 1] __attribute__((visibility("hidden")));

static void twin_fail(const char *what) {
  fprintf(stderr, "%s: block %u\n", what, blockIdx.x);
  abort();
}

static void twin_start(unsigned thread) {
  void **top = (void **)(twin_stacks + (size_t)(thread + 1) * TWIN_STACK_BYTES) - 2;
  *top = (void *)twin_enter;
  twin_threads[thread].stack = top - 6;
  twin_threads[thread].is_done = twin_threads[thread].is_waiting = false;
  memset(twin_exchanges[thread], 0, sizeof twin_exchanges[thread]);
  twin_queues[thread].end = twin_queues[thread].groups = 0;
}

/* The next of `count` numbers in an order that visits all of them: steps of an odd size, or of one. */
static void twin_round(unsigned threads, unsigned round) {
  for (unsigned n = 0; n < threads; ++n) {
    unsigned thread = n;
    if (twin_order == 1) thread = threads - 1 - n;
    if (twin_order > 1) {
      unsigned size = 1;
      while (size < threads) size *= 2;
      /* A permutation of the next power of two, without what lies beyond. */
      static unsigned state;
      if (n == 0) state = (round * 2654435761u + twin_order) & (size - 1);
      do state = (state * 5 + 2 * twin_order + 1) & (size - 1); while (state >= threads);
      thread = state;
    }
    threadIdx.x = thread;
    if (!twin_threads[thread].is_done && !twin_threads[thread].is_waiting) twin_resume(thread);
  }
}

static void twin_block(unsigned threads, size_t shared_bytes) {
  ++twin_now.blocks;
  twin_now.barriers = 0;
  twin_now.is_in_kernel = true;
  ASAN_UNPOISON_MEMORY_REGION(shared_memory, sizeof shared_memory);
  memset(shared_memory, 0xff, shared_bytes);
  ASAN_POISON_MEMORY_REGION((char *)shared_memory + shared_bytes, sizeof shared_memory - shared_bytes);
  twin_barriers = twin_inside = 0;
  twin_block_threads = threads;
  for (unsigned thread = 0; thread < threads; ++thread) twin_start(thread);
  for (unsigned round = 0;; ++round) {
    twin_shuffles = 0;
    twin_round(threads, round);
    /* Who waits for all others does so while they exchange what they have. */
    if (twin_shuffles) continue;
    if (twin_inside) twin_fail("an exchange that not all threads of a warp come to");
    if (!twin_barriers) break;
    if (twin_barriers != threads) twin_fail("a barrier that not all threads of a block come to");
    twin_pass(threads);
    for (unsigned thread = 0; thread < threads; ++thread) twin_threads[thread].is_waiting = false;
    twin_barriers = 0;
  }
  twin_now.is_in_kernel = false;
}

/* The n-th block to run. */
static unsigned twin_nth(unsigned n, unsigned blocks) {
  if (twin_order == 1) return blocks - 1 - n;
  if (twin_order > 1) return (n + blocks / 2) % blocks;
  return n;
}

static void twin_launch(unsigned blocks, unsigned threads, size_t shared_bytes, void (*body)(void *), void *arguments) {
  if (threads > TWIN_THREADS || shared_bytes > sizeof shared_memory) twin_fail("a launch that is too large");
  if (!twin_stacks) {
    twin_stacks = (char *)mmap(0, TWIN_STACKS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (twin_stacks == (char *)MAP_FAILED) twin_fail("no memory for stacks");
  }
  ++twin_now.launches;
  twin_body = body;
  twin_arguments = arguments;
  for (unsigned n = 0; n < blocks; ++n) {
    blockIdx.x = twin_nth(n, blocks);
    twin_block(threads, shared_bytes);
  }
}

/* ---- What the host function calls ---- */

typedef int cudaError_t;
enum { cudaSuccess, cudaFuncAttributeMaxDynamicSharedMemorySize };
static inline cudaError_t cudaGetLastError(void) { return cudaSuccess; }
/* Nothing is passed for it: a worker calls a twin as it calls the C of a kernel. What fails ends the process. */
struct cudaStream_t {};

template <class Call> static cudaError_t twin_call(unsigned blocks, unsigned threads, size_t shared_bytes, Call call) {
  twin_launch(blocks, threads, shared_bytes, [](void *it) { (*(Call *)it)(); }, &call);
  return cudaSuccess;
}
#define LAUNCH(kernel, blocks, threads, shared_bytes, stream, ...) \
  twin_call(blocks, threads, shared_bytes, [=] { kernel(__VA_ARGS__); })

template <class Kernel> static inline cudaError_t cudaFuncSetAttribute(Kernel, int, int) { return cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t) {
  return memset(memory, value, size), cudaSuccess;
}
/* Holds no numbers when it is new. */
static inline cudaError_t cudaMallocAsync(void **memory, size_t size, cudaStream_t) {
  if (!(*memory = malloc(size))) twin_fail("no memory for arrays between kernels");
  return memset(*memory, 0xff, size), cudaSuccess;
}
static inline cudaError_t cudaFreeAsync(void *memory, cudaStream_t) { return free(memory), cudaSuccess; }

/* What has been read so far counts no more (`races.h`). */
extern "C" void twin_forget(void) { twin_now.forgotten = twin_now.launches; }

/* When the library is unloaded. */
__attribute__((destructor)) static void twin_end(void) {
  if (twin_stacks) munmap(twin_stacks, TWIN_STACKS_BYTES);
  for (unsigned n = 0; n < TWIN_THREADS; ++n) free(twin_queues[n].copies);
}
#endif
