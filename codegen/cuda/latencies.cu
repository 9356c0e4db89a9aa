// Kernels that find how long one instruction waits for another, and what each level of memory gives.
// `codegen/cuda/characterize.py` launches them; cycles are those of the clock of an SM.

#define STEPS 256

// One thread: cycles of STEPS operations, each of which needs the one before.
template <class T> static __device__ void chain(long long *cycles, T *out, T factor) {
  T x = factor;
  const long long start = clock64();
#pragma unroll
  for (int step = 0; step < STEPS; ++step) x = x * factor + factor;
  *out = x;  // before the clock is read again
  cycles[0] = clock64() - start;
}
extern "C" __global__ void chain_f32(long long *cycles, float *out, float factor) { chain(cycles, out, factor); }
extern "C" __global__ void chain_f64(long long *cycles, double *out, double factor) { chain(cycles, out, factor); }

// One thread goes once around a ring of places to warm what caches it, then measures STEPS loads, each of whose
// addresses is what the load before gave. What is beyond `warm` places stays cold.
template <bool is_in_l1> static __device__ unsigned load(const unsigned *at) { return is_in_l1 ? __ldca(at) : __ldcg(at); }
template <bool is_in_l1> static __device__ void chase(long long *cycles, unsigned *out, const unsigned *ring, int warm) {
  unsigned at = 0;
  for (int step = 0; step < warm; ++step) at = load<is_in_l1>(ring + at);
  const long long start = clock64();
#pragma unroll 16
  for (int step = 0; step < STEPS; ++step) at = load<is_in_l1>(ring + at);
  *out = at;
  cycles[0] = clock64() - start;
}
extern "C" __global__ void chase_l1(long long *cycles, unsigned *out, const unsigned *ring, int warm) {
  chase<true>(cycles, out, ring, warm);
}
extern "C" __global__ void chase_l2(long long *cycles, unsigned *out, const unsigned *ring, int warm) {
  chase<false>(cycles, out, ring, warm);
}

extern "C" __global__ void chase_shared(long long *cycles, unsigned *out, const unsigned *ring, int places) {
  extern __shared__ float4 shared_memory[];
  volatile unsigned *const kept = (volatile unsigned *)shared_memory;
  for (int place = 0; place < places; ++place) kept[place] = ring[place];
  unsigned at = 0;
  const long long start = clock64();
#pragma unroll 16
  for (int step = 0; step < STEPS; ++step) at = kept[at];
  *out = at;
  cycles[0] = clock64() - start;
}

// A block: cycles of STEPS barriers.
extern "C" __global__ void barriers(long long *cycles) {
  __syncthreads();
  const long long start = clock64();
  for (int step = 0; step < STEPS; ++step) __syncthreads();
  if (threadIdx.x == 0) cycles[0] = clock64() - start;
}

// A block: cycles in which each of its threads loads 16 bytes STEPS times, from shared memory or through the L1 cache.
extern "C" __global__ void stream_shared(long long *cycles, float *out) {
  extern __shared__ float4 shared_memory[];
  shared_memory[threadIdx.x] = make_float4(1, 2, 3, 4);
  __syncthreads();
  const long long start = clock64();
  float sum = 0;
#pragma unroll 16
  for (int step = 0; step < STEPS; ++step) {
    const float4 v = shared_memory[threadIdx.x ^ (step & 31)];
    sum += v.x + v.y + v.z + v.w;
  }
  out[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) cycles[0] = clock64() - start;
}
extern "C" __global__ void stream_l1(long long *cycles, float *out, const float4 *from) {
  float sum = __ldca(from + threadIdx.x).x;
  __syncthreads();
  const long long start = clock64();
#pragma unroll 16
  for (int step = 0; step < STEPS; ++step) {
    const float4 v = __ldca(from + (threadIdx.x ^ (step & 31)));
    sum += v.x + v.y + v.z + v.w;
  }
  out[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) cycles[0] = clock64() - start;
}

// All blocks read `count` times 16 bytes, `rounds` times, past the L1 cache; a block goes on where the one before it ends.
extern "C" __global__ void stream(float *out, const float4 *from, long long count, int rounds) {
  float sum = 0;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (int round = 0; round < rounds; ++round) {
#pragma unroll 4
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
      const float4 v = __ldcg(from + i);
      sum += v.x + v.y + v.z + v.w;
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
