// Kernels that find the limits of a GPU: what a launch costs, what memory and arithmetic give at best.
// Whoever launches them says how many blocks and threads; `codegen/cuda/batches/run_batch.py` and `characterize.py` do.

extern "C" __global__ void empty() {}

// As many bytes read as written; 16 of them at a time.
extern "C" __global__ void copy(float4 *__restrict__ to, const float4 *__restrict__ from, long long count) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const float4 a = from[i], b = from[i + stride], c = from[i + 2 * stride], d = from[i + 3 * stride];
    to[i] = a;
    to[i + stride] = b;
    to[i + 2 * stride] = c;
    to[i + 3 * stride] = d;
  }
  for (; i < count; i += stride) to[i] = from[i];
}

// 8 chains of fused multiply-adds, 64 of each in a round: 1024 operations of a thread.
template <class T> static __device__ void chains(T *out, T factor, int rounds) {
  T sums[8];
  for (int n = 0; n < 8; ++n) sums[n] = (T)(threadIdx.x + n);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < 64; ++step) {
#pragma unroll
      for (int n = 0; n < 8; ++n) sums[n] = sums[n] * factor + factor;
    }
  }
  T sum = 0;
  for (int n = 0; n < 8; ++n) sum += sums[n];
  out[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void fma_f32(float *out, float factor, int rounds) { chains(out, factor, rounds); }
extern "C" __global__ void fma_f64(double *out, double factor, int rounds) { chains(out, factor, rounds); }

// 4 chains of products on tensor cores, 16 of each in a round: 64 x 4096 operations of a warp.
extern "C" __global__ void mma_bf16(float *out, int rounds) {
  float sums[4][4] = {};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned a = threadIdx.x;
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < 16; ++step) {
#pragma unroll
      for (int n = 0; n < 4; ++n)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
                     : "r"(a));
    }
  }
#endif
  float sum = 0;
  for (int n = 0; n < 4; ++n)
    for (int m = 0; m < 4; ++m) sum += sums[n][m];
  out[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
