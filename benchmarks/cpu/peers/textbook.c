/* What a user would write without this project: plain loops and OpenMP, built at -O3 -march=native -fopenmp.
 *
 * Compiled for one problem, which a macro names; sizes are constants here as they are in generated code:
 * -DM=.. -DN=.. -DK=... The function is always called `peer`: inputs, output, scalars. */
#include <math.h>
#include <stdint.h>

typedef const float *restrict In;
typedef float *restrict Out;
#define EACH(i, n) for (int64_t i = 0; i < (n); i++)
#define PARALLEL _Pragma("omp parallel for")

#ifdef AXPY
void peer(In x, In y, Out z, float alpha)
{
    PARALLEL EACH(i, N) z[i] = alpha * x[i] + y[i];
}
#endif

#if defined MATMUL || defined MATMUL_STRIDED
#ifdef MATMUL_STRIDED
#define AT(i, p) A[((i) * K + (p)) * 32]
#else
#define AT(i, p) A[(i) * K + (p)]
#endif
void peer(In A, In B, Out C)
{
    PARALLEL EACH(i, M)
    {
        EACH(j, N) C[i * N + j] = 0;
        EACH(p, K) EACH(j, N) C[i * N + j] += AT(i, p) * B[p * N + j];
    }
}
#endif

#ifdef MATMUL_BIAS_RELU
void peer(In A, In B, In bias, Out C)
{
    PARALLEL EACH(i, M)
    {
        EACH(j, N) C[i * N + j] = bias[j];
        EACH(p, K) EACH(j, N) C[i * N + j] += A[i * K + p] * B[p * N + j];
        EACH(j, N) C[i * N + j] = C[i * N + j] > 0 ? C[i * N + j] : 0;
    }
}
#endif

#ifdef BATCHED_MATMUL
void peer(In X, In Y, Out Z)
{
    PARALLEL EACH(t, B) EACH(i, M)
    {
        EACH(j, N) Z[(t * M + i) * N + j] = 0;
        EACH(p, K) EACH(j, N) Z[(t * M + i) * N + j] += X[(t * M + i) * K + p] * Y[(t * K + p) * N + j];
    }
}
#endif

#ifdef MATVEC
void peer(In A, In x, Out y)
{
    PARALLEL EACH(i, M)
    {
        float sum = 0;
        EACH(p, K) sum += A[i * K + p] * x[p];
        y[i] = sum;
    }
}
#endif

#ifdef GESUMMV
void peer(In A, In B, In x, Out y, float alpha, float beta)
{
    PARALLEL EACH(i, M)
    {
        float a = 0, b = 0;
        EACH(p, K)
        {
            a += A[i * K + p] * x[p];
            b += B[i * K + p] * x[p];
        }
        y[i] = alpha * a + beta * b;
    }
}
#endif

#ifdef ATAX
void peer(In A, In x, float *y)
{
    EACH(j, N) y[j] = 0;
    _Pragma("omp parallel for reduction(+ : y[ : N])") EACH(i, M)
    {
        float t = 0;
        EACH(j, N) t += A[i * N + j] * x[j];
        EACH(j, N) y[j] += A[i * N + j] * t;
    }
}
#endif

#ifdef DOITGEN
void peer(In A, In C4, Out S)
{
    PARALLEL EACH(t, R * Q)
    {
        EACH(j, P) S[t * P + j] = 0;
        EACH(s, P) EACH(j, P) S[t * P + j] += A[t * P + s] * C4[s * P + j];
    }
}
#endif

#ifdef CONV2D
void peer(In image, In weights, Out result)
{
    PARALLEL EACH(y, H) EACH(x, W)
    {
        EACH(f, F) result[(y * W + x) * F + f] = 0;
        EACH(i, 3) EACH(j, 3)
        {
            const int64_t v = y + i - 1, u = x + j - 1;
            if (v < 0 || v >= H || u < 0 || u >= W)
                continue;
            EACH(c, C) EACH(f, F)
                result[(y * W + x) * F + f] += image[(v * W + u) * C + c] * weights[((i * 3 + j) * C + c) * F + f];
        }
    }
}
#endif

#ifdef SOFTMAX
void peer(In X, Out Y)
{
    PARALLEL EACH(i, M)
    {
        float most = X[i * N], sum = 0;
        EACH(j, N) most = fmaxf(most, X[i * N + j]);
        EACH(j, N) sum += Y[i * N + j] = expf(X[i * N + j] - most);
        EACH(j, N) Y[i * N + j] /= sum;
    }
}
#endif

#ifdef LAYER_NORM
void peer(In X, In gain, In bias, Out Y)
{
    PARALLEL EACH(i, M)
    {
        float mean = 0, variance = 0;
        EACH(j, N) mean += X[i * N + j] / N;
        EACH(j, N) variance += (X[i * N + j] - mean) * (X[i * N + j] - mean) / N;
        const float scale = 1 / sqrtf(variance + 1e-5f);
        EACH(j, N) Y[i * N + j] = (X[i * N + j] - mean) * scale * gain[j] + bias[j];
    }
}
#endif
