/* What somebody would write who knows the machine: vectors of 16 floats, tiles of registers, stores around the caches.
 *
 * The measure of what generated code can reach, and no peer. Compiled for one problem as textbook.c is; sizes are
 * multiples of the tiles. */
#include <immintrin.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>

typedef const float *restrict In;
typedef float *restrict Out;
typedef float V __attribute__((vector_size(64), aligned(4), may_alias));
#define EACH(i, n) for (int64_t i = 0; i < (n); i++)
#define UNROLLED(i, n) _Pragma("GCC unroll 64") for (int64_t i = 0; i < (n); i++)
#define PARALLEL _Pragma("omp parallel for schedule(static)")
#define AT(p) (*(const V *)(p))
#define TO(p) (*(V *)(p))

static inline float sum16(V x) { return _mm512_reduce_add_ps((__m512)x); }

/* What else four steps of a tile do. */
#ifdef BATCHED_MATMUL
/* A share of what the next product reads, so that memory is never asked for more at once than it has time for. */
#define SHARE(from, step, lines) \
    UNROLLED(n, lines) _mm_prefetch((const char *)((from) + 16 * ((step) * (lines) + n)), _MM_HINT_T0)
#define AHEAD(p)                                                              \
    do {                                                                      \
        const int64_t step = ((i / 8) * (N / 32) + j / 32) * (K / 4) + (p) / 4; \
        SHARE(X + (t + 1) * M * K, step, 64 / N);                             \
        SHARE(Y + (t + 1) * K * N, step, 64 / M);                             \
    } while (0)
#elif defined(MATMUL_STRIDED)
/* Each element of A is a line of its own. While some rows are multiplied, those that come next are copied, a piece of
 * six rows in each 128 steps of a tile: so many that all are there in time. Lines are asked for a piece before. */
#define WIDTH (8192 / N)
#define LINES (6 * WIDTH)
#define PITCH (K + 16)
typedef struct {
    const float *from, *asked;
    float *to;
    int64_t rows, piece;
} Next;

static inline const float *piece_at(const Next *next, int64_t piece)
{
    const int64_t row = piece / (K / WIDTH) * 6;
    return next->from + 32 * ((row < next->rows ? row : 0) * K + piece % (K / WIDTH) * WIDTH);
}

static inline void copy_piece(Next *next)
{
    const int64_t row = next->piece / (K / WIDTH) * 6, column = next->piece % (K / WIDTH) * WIDTH;
    const float *from = piece_at(next, next->piece++);
    EACH(p, WIDTH) UNROLLED(r, 6)
        if (row + r < next->rows) next->to[(row + r) * PITCH + column + p] = from[32 * (r * K + p)];
    next->asked = piece_at(next, next->piece);
}

static inline void ask(const float *line) { _mm_prefetch((const char *)line, _MM_HINT_T1); }

#define AHEAD(p)                                                              \
    do {                                                                      \
        if ((p) % 128 == 0) copy_piece(&next);                                \
        const int64_t line = (p) % 128 / 4 * LINES / 32;                      \
        UNROLLED(n, (LINES + 31) / 32)                                        \
            ask(next.asked + 32 * ((line + n) % 6 * K + (line + n) / 6));     \
    } while (0)
#else
#define AHEAD(p)
#endif

/* What becomes of a sum in the vector `s` of a tile. */
#ifdef MATMUL_BIAS_RELU
#define END(sum, s) ((V)_mm512_max_ps((__m512)((sum) + AT(columns + 16 * (s))), _mm512_setzero_ps()))
#else
#define END(sum, s) (sum)
#endif

/* Terms of a tile of R rows by S vectors of a product, from step p on; `a` has rows of LA elements, `b` of LB. */
#define STEPS(R, S, p, count, a, LA, b, LB)                                   \
    UNROLLED(u, count) {                                                      \
        V row[S];                                                             \
        UNROLLED(s, S) row[s] = AT((b) + ((p) + u) * (LB) + 16 * s);          \
        UNROLLED(r, R) UNROLLED(s, S)                                         \
            acc[r][s] += (a)[r * (LA) + (p) + u] * row[s];                    \
    }

/* All K of them, and the results in rows of `c`, which have LC elements: PUT(c, s, sum) stores a vector. */
#define TILE_BY(PUT, R, S, K, a, LA, b, LB, c, LC)                            \
    do {                                                                      \
        V acc[R][S] = {0};                                                    \
        for (int64_t p = 0; p + 4 <= (K); p += 4) {                           \
            AHEAD(p);                                                         \
            STEPS(R, S, p, 4, a, LA, b, LB)                                   \
        }                                                                     \
        STEPS(R, S, (K) / 4 * 4, (K) % 4, a, LA, b, LB)                       \
        UNROLLED(r, R) UNROLLED(s, S) PUT((c) + r * (LC), s, END(acc[r][s], s));\
    } while (0)
#define WHOLE(c, s, sum) TO((c) + 16 * (s)) = sum
#define TILE(R, S, K, a, LA, b, LB, c, LC) TILE_BY(WHOLE, R, S, K, a, LA, b, LB, c, LC)

#ifdef AXPY
void peer(In x, In y, Out z, float alpha)
{
    PARALLEL EACH(i, N / 64)
        UNROLLED(u, 4) _mm512_stream_ps(z + 64 * i + 16 * u, (__m512)(alpha * AT(x + 64 * i + 16 * u) + AT(y + 64 * i + 16 * u)));
    _mm_sfence();
}
#endif

#ifdef BATCHED_MATMUL
void peer(In X, In Y, Out Z)
{
    PARALLEL EACH(t, B)
        for (int64_t i = 0; i < M; i += 8)
            for (int64_t j = 0; j < N; j += 32)
                TILE(8, 2, K, X + (t * M + i) * K, K, Y + t * K * N + j, N, Z + (t * M + i) * N + j, N);
}
#endif

#if defined(MATMUL) && K <= 64 && M % 4 == 0 && N % 64 == 0
/* So short sums are not worth a copy of B. */
void peer(In A, In B, Out C)
{
    PARALLEL for (int64_t i = 0; i < M; i += 4)
        for (int64_t j = 0; j < N; j += 64)
            TILE(4, 4, K, A + i * K, K, B + j, N, C + i * N + j, N);
}
#elif (defined(MATMUL) || defined(MATMUL_BIAS_RELU)) && M % 2 == 0 && N % 128 == 0
/* Two panels of B at a time, each as wide as a tile: 6 rows of 4 vectors, which load least for each product. */
static _Thread_local float panels[2][K * 64] __attribute__((aligned(64)));

#ifdef MATMUL_BIAS_RELU
#define COLUMNS(j) const float *columns = bias + (j)
void peer(In A, In B, In bias, Out C)
#else
#define COLUMNS(j)
void peer(In A, In B, Out C)
#endif
{
    PARALLEL for (int64_t j = 0; j < N; j += 128)
    {
        EACH(p, K) EACH(s, 8) TO(panels[s / 4] + p * 64 + s % 4 * 16) = AT(B + p * N + j + 16 * s);
        int64_t i = 0;
        for (; i + 6 <= M; i += 6)
            EACH(q, 2)
            {
                COLUMNS(j + 64 * q);
                TILE(6, 4, K, A + i * K, K, panels[q], 64, C + i * N + j + 64 * q, N);
            }
        for (; i < M; i += 2)
            EACH(q, 2)
            {
                COLUMNS(j + 64 * q);
                TILE(2, 4, K, A + i * K, K, panels[q], 64, C + i * N + j + 64 * q, N);
            }
    }
}
#elif defined(MATMUL)
/* Panels of which the last one is filled up with zeros, whose results are not stored. */
static _Thread_local float panel[K * 64] __attribute__((aligned(64)));

static inline __mmask16 mask_of(int64_t columns)
{
    return columns >= 16 ? 0xffff : columns > 0 ? (1 << columns) - 1 : 0;
}

#define PART(c, s, sum) _mm512_mask_storeu_ps((c) + 16 * (s), mask_of(left - 16 * (s)), (__m512)(sum))
#define ROWS_OF(R, PUT) TILE_BY(PUT, R, 4, K, A + i * K, K, panel, 64, C + i * N + j, N)

void peer(In A, In B, Out C)
{
    PARALLEL for (int64_t j = 0; j < N; j += 64)
    {
        const int64_t left = N - j;
        EACH(p, K) UNROLLED(s, 4)
            _mm512_store_ps(panel + p * 64 + 16 * s, _mm512_maskz_loadu_ps(mask_of(left - 16 * s), B + p * N + j + 16 * s));
        int64_t i = 0;
        if (left >= 64) {
            for (; i + 6 <= M; i += 6) ROWS_OF(6, WHOLE);
            for (; i < M; i++) ROWS_OF(1, WHOLE);
        } else {
            for (; i + 6 <= M; i += 6) ROWS_OF(6, PART);
            for (; i < M; i++) ROWS_OF(1, PART);
        }
    }
}
#endif

#if defined(MATMUL_STRIDED) && M % 2 == 0 && N % 64 == 0 && 8192 % N == 0 && K % 128 == 0 && K % WIDTH == 0
enum { ROWS = 66 };
static float panels[N / 64][K * 64] __attribute__((aligned(64)));
static _Thread_local float rows[2][ROWS * PITCH] __attribute__((aligned(64)));

void peer(In A, In B, Out C)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t j = 0; j < N / 64; j++)
            EACH(p, K) UNROLLED(s, 4) TO(panels[j] + p * 64 + 16 * s) = AT(B + p * N + 64 * j + 16 * s);
        const int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
        const int64_t begin = M / 2 * t / threads * 2, end = M / 2 * (t + 1) / threads * 2;
        Next next = {A + 32 * begin * K, A, rows[0], end - begin < ROWS ? end - begin : ROWS, 0};
        while (next.piece < (next.rows + 5) / 6 * (K / WIDTH)) copy_piece(&next);
        for (int64_t i = begin, half = 0; i < end; i += ROWS, half = !half) {
            const int64_t here = next.rows, left = end - i - here;
            next = (Next){A + 32 * (i + here) * K, A, rows[!half], left < ROWS ? left : ROWS, 0};
            EACH(j, N / 64) {
                int64_t q = 0;
                for (; q + 6 <= here; q += 6)
                    TILE(6, 4, K, rows[half] + q * PITCH, PITCH, panels[j], 64, C + (i + q) * N + 64 * j, N);
                for (; q < here; q += 2)
                    TILE(2, 4, K, rows[half] + q * PITCH, PITCH, panels[j], 64, C + (i + q) * N + 64 * j, N);
            }
        }
    }
}
#endif

#ifdef MATVEC
void peer(In A, In x, Out y)
{
    PARALLEL EACH(i, M)
    {
        V acc[4] = {0};
        for (int64_t p = 0; p < K; p += 64)
            UNROLLED(u, 4) acc[u] += AT(A + i * K + p + 16 * u) * AT(x + p + 16 * u);
        y[i] = sum16((acc[0] + acc[1]) + (acc[2] + acc[3]));
    }
}
#endif

#ifdef GESUMMV
void peer(In A, In B, In x, Out y, float alpha, float beta)
{
    PARALLEL EACH(i, M)
    {
        V a[2] = {0}, b[2] = {0};
        for (int64_t p = 0; p < K; p += 32)
            UNROLLED(u, 2) {
                a[u] += AT(A + i * K + p + 16 * u) * AT(x + p + 16 * u);
                b[u] += AT(B + i * K + p + 16 * u) * AT(x + p + 16 * u);
            }
        y[i] = alpha * sum16(a[0] + a[1]) + beta * sum16(b[0] + b[1]);
    }
}
#endif

#ifdef ATAX
enum { MOST_THREADS = 64 };
static float parts[MOST_THREADS][N] __attribute__((aligned(64)));

/* Four rows at a time, which are read once: each thread has a sum of its own. */
void peer(In A, In x, Out y)
{
#pragma omp parallel num_threads(omp_get_max_threads() < MOST_THREADS ? omp_get_max_threads() : MOST_THREADS)
    {
        float *part = parts[omp_get_thread_num()];
        EACH(j, N) part[j] = 0;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < M; i += 4) {
            V acc[4] = {0};
            float t[4];
            for (int64_t j = 0; j < N; j += 16)
                UNROLLED(r, 4) acc[r] += AT(A + (i + r) * N + j) * AT(x + j);
            UNROLLED(r, 4) t[r] = sum16(acc[r]);
            for (int64_t j = 0; j < N; j += 16) {
                V sum = AT(part + j);
                UNROLLED(r, 4) sum += AT(A + (i + r) * N + j) * t[r];
                TO(part + j) = sum;
            }
        }
#pragma omp for schedule(static)
        for (int64_t j = 0; j < N; j += 16) {
            V sum = {0};
            EACH(t, omp_get_num_threads()) sum += AT(parts[t] + j);
            TO(y + j) = sum;
        }
    }
}
#endif

#ifdef DOITGEN
/* The columns of C that a tile reads are copied: in their place they would fall into few sets of the cache. */
void peer(In A, In C4, Out S)
{
#pragma omp parallel
    for (int64_t j = 0; j < P; j += 64) {
        float part[P * 64] __attribute__((aligned(64)));
        EACH(p, P) UNROLLED(u, 4) TO(part + p * 64 + 16 * u) = AT(C4 + p * P + j + 16 * u);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < R * Q; t += 4)
            TILE(4, 4, P, A + t * P, P, part, 64, S + t * P + j, P);
    }
}
#endif

#ifdef CONV2D
#define WIDE (W + 2)
static float padded[(H + 2) * WIDE * C] __attribute__((aligned(64)));

void peer(In image, In weights, Out result)
{
    PARALLEL EACH(y, H)
        for (int64_t x = 0; x < W * C; x += 16)
            TO(padded + ((y + 1) * WIDE + 1) * C + x) = AT(image + y * W * C + x);
    PARALLEL EACH(y, H)
        for (int64_t f = 0; f < F; f += 32)
            for (int64_t x = 0; x < W; x += 14) {
                V acc[14][2] = {0};
                EACH(i, 3) EACH(j, 3) for (int64_t c = 0; c < C; c += 2) UNROLLED(u, 2)
                {
                    const float *from = padded + ((y + i) * WIDE + x + j) * C + c + u;
                    const float *weight = weights + ((i * 3 + j) * C + c + u) * F + f;
                    const V left = AT(weight), right = AT(weight + 16);
                    UNROLLED(r, 14) acc[r][0] += from[r * C] * left, acc[r][1] += from[r * C] * right;
                }
                UNROLLED(r, 14) UNROLLED(s, 2) TO(result + (y * W + x + r) * F + f + 16 * s) = acc[r][s];
            }
}
#endif

#ifdef SOFTMAX
static inline __m512 power(__m512 x)
{
    const __m512 n = _mm512_roundscale_ps(x * _mm512_set1_ps(0x1.715476p0f), _MM_FROUND_TO_NEAREST_INT);
    const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x) - n * _mm512_set1_ps(0x1.7f7d1cp-20f);
    __m512 e = _mm512_set1_ps(1.f / 5040);
    const float terms[] = {1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 0.5f, 1, 1};
    UNROLLED(t, 7) e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(terms[t]));
    return _mm512_scalef_ps(e, n);
}

void peer(In X, Out Y)
{
    PARALLEL EACH(i, M)
    {
        const float *x = X + i * N;
        float *y = Y + i * N;
        __m512 most[4], sum[4];
        UNROLLED(u, 4) most[u] = _mm512_set1_ps(-INFINITY), sum[u] = _mm512_setzero_ps();
        for (int64_t j = 0; j < N; j += 64)
            UNROLLED(u, 4) most[u] = _mm512_max_ps(most[u], _mm512_loadu_ps(x + j + 16 * u));
        UNROLLED(u, 3) most[0] = _mm512_max_ps(most[0], most[u + 1]);
        const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most[0]));
        for (int64_t j = 0; j < N; j += 64)
            UNROLLED(u, 4) {
                const __m512 e = power(_mm512_loadu_ps(x + j + 16 * u) - top);
                sum[u] += e;
                _mm512_storeu_ps(y + j + 16 * u, e);
            }
        const __m512 scale = _mm512_set1_ps(1 / sum16((V)((sum[0] + sum[1]) + (sum[2] + sum[3]))));
        for (int64_t j = 0; j < N; j += 64)
            UNROLLED(u, 4) _mm512_storeu_ps(y + j + 16 * u, _mm512_loadu_ps(y + j + 16 * u) * scale);
    }
}
#endif

#ifdef LAYER_NORM
void peer(In X, In gain, In bias, Out Y)
{
    PARALLEL EACH(i, M)
    {
        const float *x = X + i * N;
        float *y = Y + i * N;
        V sum[4] = {0}, squares[4] = {0};
        for (int64_t j = 0; j < N; j += 64) UNROLLED(u, 4) sum[u] += AT(x + j + 16 * u);
        const float mean = sum16((sum[0] + sum[1]) + (sum[2] + sum[3])) / N;
        for (int64_t j = 0; j < N; j += 64)
            UNROLLED(u, 4) {
                const V d = AT(x + j + 16 * u) - mean;
                squares[u] += d * d;
            }
        const float scale = 1 / sqrtf(sum16((squares[0] + squares[1]) + (squares[2] + squares[3])) / N + 1e-5f);
        for (int64_t j = 0; j < N; j += 16) TO(y + j) = (AT(x + j) - mean) * scale * AT(gain + j) + AT(bias + j);
    }
}
#endif
