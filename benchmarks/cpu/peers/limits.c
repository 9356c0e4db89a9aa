/* What the machine can do at most, to be timed in turn with the contenders: `-fopenmp -ffp-contract=fast`.
 *
 * Nothing is computed that anybody wants: multiply-adds in registers; inputs read and outputs written, as many bytes
 * as a problem has. */
#include <stdint.h>
#if defined __x86_64__
#include <immintrin.h>
#endif
#if defined __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif
typedef float Vector __attribute__((vector_size(4 * LANES)));
#define CHAINS 12

/* `count` floating-point operations, in independent chains. */
void fma_only(int64_t count, float *sink)
{
#pragma omp parallel
    {
        Vector sums[CHAINS], factor, term;
        for (int i = 0; i < LANES; i++)
            factor[i] = 0.9999f, term[i] = 1e-7f;
        for (int c = 0; c < CHAINS; c++)
            sums[c] = term * (float)c;
#pragma omp for
        for (int64_t n = 0; n < count / (2 * LANES * CHAINS); n++) {
#pragma GCC unroll 12
            for (int c = 0; c < CHAINS; c++)
                sums[c] = sums[c] * factor + term;
        }
        for (int c = 1; c < CHAINS; c++)
            sums[0] += sums[c];
        for (int i = 0; i < LANES; i++)
            if (sums[0][i] > 1e30f)
                *sink = sums[0][i];
    }
}

/* Moves `read` floats in and `written` floats out, a share of each in turn, both multiples of the vector's lanes. */
static void move(const float *in, int64_t read, float *out, int64_t written, int streams, float *sink)
{
    const Vector *const from = (const Vector *)in;
    Vector *const to = (Vector *)out;
    const int64_t loads = read / LANES, stores = written / LANES;
    const int64_t blocks = 1 + (loads > stores ? loads : stores) / 64;
#pragma omp parallel for
    for (int64_t b = 0; b < blocks; b++) {
        Vector sum[4] = {0};
        const int64_t first = b * loads / blocks, last = (b + 1) * loads / blocks;
        int64_t i = first;
        for (; i + 4 <= last; i += 4)
            for (int s = 0; s < 4; s++)
                sum[s] += from[i + s];
        for (; i < last; i++)
            sum[0] += from[i];
        const Vector value = sum[0] + sum[1] + sum[2] + sum[3];
        for (int64_t o = b * stores / blocks; o < (b + 1) * stores / blocks; o++) {
#if defined __AVX512F__
            if (streams) {
                _mm512_stream_ps((float *)(to + o), (__m512)value);
                continue;
            }
#elif defined __AVX__
            if (streams) {
                _mm256_stream_ps((float *)(to + o), (__m256)value);
                continue;
            }
#elif defined __x86_64__
            if (streams) {
                _mm_stream_ps((float *)(to + o), (__m128)value);
                continue;
            }
#endif
            to[o] = value;
        }
        if (value[0] > 1e30f)
            *sink = value[0];
    }
#if defined __x86_64__
    if (streams)
        _mm_sfence();
#endif
}

void move_plain(const float *in, int64_t read, float *out, int64_t written, float *sink)
{
    move(in, read, out, written, 0, sink);
}

/* Past the caches, where the processor has such stores. */
void move_streamed(const float *in, int64_t read, float *out, int64_t written, float *sink)
{
    move(in, read, out, written, 1, sink);
}
