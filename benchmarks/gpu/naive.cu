// The kernels that anybody would write first: a thread for each element of the result, or for each row.
// Sizes are macros, `SIZE_m` of the size `m`. A block has 256 threads.

#define THREAD ((long long)blockIdx.x * 256 + threadIdx.x)

#ifdef KERNEL_axpy
extern "C" __global__ void naive(const float *x, const float *y, float *z, float alpha) {
  long long i = THREAD;
  if (i < SIZE_n) z[i] = alpha * x[i] + y[i];
}
#endif

#if defined(KERNEL_matmul) || defined(KERNEL_matmul_small) || defined(KERNEL_matmul_strided)
#ifdef KERNEL_matmul_strided
#define STRIDE 32
#else
#define STRIDE 1
#endif
extern "C" __global__ void naive(const float *A, const float *B, float *C) {
  long long i = THREAD / SIZE_n, j = THREAD % SIZE_n;
  if (i >= SIZE_m) return;
  float sum = 0;
  for (int p = 0; p < SIZE_k; ++p) sum += A[(i * SIZE_k + p) * STRIDE] * B[p * SIZE_n + j];
  C[i * SIZE_n + j] = sum;
}
#endif

#ifdef KERNEL_matmul_bf16_tensor
static __device__ float number(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
extern "C" __global__ void naive(const unsigned short *A, const unsigned short *B, float *C) {
  long long i = THREAD / SIZE_n, j = THREAD % SIZE_n;
  if (i >= SIZE_m) return;
  float sum = 0;
  for (int p = 0; p < SIZE_k; ++p) sum += number(A[i * SIZE_k + p]) * number(B[p * SIZE_n + j]);
  C[i * SIZE_n + j] = sum;
}
#endif

#ifdef KERNEL_batched_matmul
extern "C" __global__ void naive(const float *A, const float *B, float *C) {
  long long h = THREAD / (SIZE_m * SIZE_n), i = THREAD / SIZE_n % SIZE_m, j = THREAD % SIZE_n;
  if (h >= SIZE_b) return;
  float sum = 0;
  for (int p = 0; p < SIZE_k; ++p) sum += A[(h * SIZE_m + i) * SIZE_k + p] * B[(h * SIZE_k + p) * SIZE_n + j];
  C[(h * SIZE_m + i) * SIZE_n + j] = sum;
}
#endif

#ifdef KERNEL_matvec
extern "C" __global__ void naive(const float *A, const float *x, float *y) {
  long long i = THREAD;
  if (i >= SIZE_m) return;
  float sum = 0;
  for (int p = 0; p < SIZE_k; ++p) sum += A[i * SIZE_k + p] * x[p];
  y[i] = sum;
}
#endif

#ifdef KERNEL_gesummv
extern "C" __global__ void naive(const float *A, const float *B, const float *x, float *y, float alpha, float beta) {
  long long i = THREAD;
  if (i >= SIZE_m) return;
  float a = 0, b = 0;
  for (int j = 0; j < SIZE_n; ++j) {
    a += A[i * SIZE_n + j] * x[j];
    b += B[i * SIZE_n + j] * x[j];
  }
  y[i] = alpha * a + beta * b;
}
#endif

#ifdef KERNEL_conv2d_nhwc
#define IN_Y (SIZE_stride * (SIZE_y - 1) + SIZE_taps - 2 * SIZE_zeros)
#define IN_X (SIZE_stride * (SIZE_x - 1) + SIZE_taps - 2 * SIZE_zeros)
extern "C" __global__ void naive(const float *I, const float *W, float *R) {
  long long o = THREAD % SIZE_f, j = THREAD / SIZE_f % SIZE_x, i = THREAD / (SIZE_f * SIZE_x) % SIZE_y;
  long long b = THREAD / (SIZE_f * SIZE_x * SIZE_y);
  if (b >= SIZE_n) return;
  float sum = 0;
  for (int r = 0; r < SIZE_taps; ++r)
    for (int q = 0; q < SIZE_taps; ++q) {
      long long y = SIZE_stride * i + r - SIZE_zeros, x = SIZE_stride * j + q - SIZE_zeros;
      if (y < 0 || y >= IN_Y || x < 0 || x >= IN_X) continue;
      for (int p = 0; p < SIZE_c; ++p)
        sum += I[((b * IN_Y + y) * IN_X + x) * SIZE_c + p] * W[((r * SIZE_taps + q) * SIZE_c + p) * SIZE_f + o];
    }
  R[((b * SIZE_y + i) * SIZE_x + j) * SIZE_f + o] = sum;
}
#endif

#ifdef KERNEL_softmax
extern "C" __global__ void naive(const float *X, float *Y) {
  long long i = THREAD;
  if (i >= SIZE_m) return;
  float top = X[i * SIZE_n], sum = 0;
  for (int j = 1; j < SIZE_n; ++j) top = fmaxf(top, X[i * SIZE_n + j]);
  for (int j = 0; j < SIZE_n; ++j) sum += expf(X[i * SIZE_n + j] - top);
  for (int j = 0; j < SIZE_n; ++j) Y[i * SIZE_n + j] = expf(X[i * SIZE_n + j] - top) / sum;
}
#endif
