/* The runtime of CUDA without a GPU, for host functions: each call says what it is asked for, in a line, and does no more.
 *
 * A caller sets `fake_failing`: the call of that number, from 1 on, fails, with 700; below 0, something has failed
 * before. Memory is of the host.
 */
#ifndef FAKE_CUDA_RUNTIME
#define FAKE_CUDA_RUNTIME
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fake_stream *cudaStream_t;
#ifdef __cplusplus
enum cudaError_t { cudaSuccess, cudaErrorIllegalAddress = 700 };
static int fake_failing, fake_calls;

static inline cudaError_t fake_end() {
  puts("");
  return ++fake_calls == fake_failing ? cudaErrorIllegalAddress : cudaSuccess;
}
static inline cudaError_t cudaGetLastError() { return fake_failing < 0 ? cudaErrorIllegalAddress : cudaSuccess; }
static inline cudaError_t cudaMallocAsync(void **memory, size_t size, cudaStream_t stream) {
  bool is_failing = fake_calls + 1 == fake_failing;
  if (!is_failing) *memory = malloc(size);
  printf("malloc %zu stream %zu gives %p", size, (size_t)stream, is_failing ? nullptr : *memory);
  return fake_end();
}
static inline cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream) {
  printf("memset %p %d %zu stream %zu", memory, value, size, (size_t)stream);
  return fake_end();
}
static inline cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
  printf("free %p stream %zu", memory, (size_t)stream);
  free(memory);
  return fake_end();
}

static inline void fake_print(const void *address) { printf(" %p", address); }
template <class... Passed>
static inline cudaError_t fake_launch(const char *kernel, int blocks, int threads, int shared, cudaStream_t stream, Passed... passed) {
  printf("launch %s %d %d %d stream %zu", kernel, blocks, threads, shared, (size_t)stream);
  (fake_print(passed), ...);
  return fake_end();
}
/* Kernels need not be declared. */
#define LAUNCH(kernel, ...) fake_launch(#kernel, __VA_ARGS__)
#define cudaFuncSetAttribute(kernel, attribute, value) (printf("set %s " #attribute " %d", #kernel, value), fake_end())
#else
typedef int cudaError_t;
#endif
#endif
