/* What a user would write without this project: plain loops and OpenMP, built at -O3 -march=native -fopenmp.
 *
 * Sizes are constants here as they are in generated code: -DM=.. -DN=.. -DK=... */
#include <stdint.h>

#ifdef K
void peer_matmul(const float *restrict A, const float *restrict B, float *restrict C) {
#pragma omp parallel for
  for (int64_t i = 0; i < M; i++) {
    for (int64_t j = 0; j < N; j++) C[i * N + j] = 0;
    for (int64_t k = 0; k < K; k++)
      for (int64_t j = 0; j < N; j++) C[i * N + j] += A[i * K + k] * B[k * N + j];
  }
}
#else
void peer_axpy(const float *restrict x, const float *restrict y, float *restrict z, float alpha) {
#pragma omp parallel for
  for (int64_t i = 0; i < N; i++) z[i] = alpha * x[i] + y[i];
}
#endif
