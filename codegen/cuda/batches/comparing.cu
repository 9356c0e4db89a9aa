// Kernels that say whether an element of an output is off by more than it may be; `codegen/cuda/batches/arena.py` launches them.
// The tolerance is a number, or one for each element. What is no number is near to nothing but itself, and infinities are;
// an infinite tolerance lets anything pass.

struct Compared {
  const double *tolerances;
  double tolerance;
  long long count;
  int *is_off;
};

static __device__ bool is_near(float found, float expected, double tolerance) {
  return fabs((double)(found - expected)) <= tolerance || found == expected || (found != found && expected != expected);
}
static __device__ bool is_near(double found, double expected, double tolerance) {
  return fabs(found - expected) <= tolerance || found == expected || (found != found && expected != expected);
}
// Integers of 64 bits are equal or not, and rounded where they are not.
template <class T> static __device__ bool is_near(T found, T expected, double tolerance) {
  return found == expected || (tolerance > 0 && fabs((double)found - (double)expected) <= tolerance);
}

struct Same {
  template <class T> static __device__ T of(T kept) { return kept; }
};
struct Bf16 {
  static __device__ float of(unsigned short kept) { return __uint_as_float((unsigned)kept << 16); }
};
struct F16 {
#ifdef CUDA_TWIN
  static float of(unsigned short kept) { return twin_from_f16(kept); }
#else
  static __device__ float of(unsigned short kept) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(kept));
    return value;
  }
#endif
};

template <class Number = Same, class Kept>
static __device__ void compare(const Kept *found, const Kept *expected, Compared with) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < with.count; i += stride) {
    const double tolerance = with.tolerances ? with.tolerances[i] : with.tolerance;
    if (!isinf(tolerance) && !is_near(Number::of(found[i]), Number::of(expected[i]), tolerance)) *with.is_off = 1;
  }
}

#define KEPT(T) const T *found, const T *expected, const double *tolerances, double tolerance, long long count, int *is_off
#define WITH found, expected, Compared{tolerances, tolerance, count, is_off}

extern "C" __global__ void compare_f32(KEPT(float)) { compare(WITH); }
extern "C" __global__ void compare_f64(KEPT(double)) { compare(WITH); }
extern "C" __global__ void compare_bf16(KEPT(unsigned short)) { compare<Bf16>(WITH); }
extern "C" __global__ void compare_f16(KEPT(unsigned short)) { compare<F16>(WITH); }
extern "C" __global__ void compare_bool(KEPT(unsigned char)) { compare(WITH); }
extern "C" __global__ void compare_i8(KEPT(signed char)) { compare(WITH); }
extern "C" __global__ void compare_i16(KEPT(short)) { compare(WITH); }
extern "C" __global__ void compare_i32(KEPT(int)) { compare(WITH); }
extern "C" __global__ void compare_i64(KEPT(long long)) { compare(WITH); }
extern "C" __global__ void compare_u8(KEPT(unsigned char)) { compare(WITH); }
extern "C" __global__ void compare_u16(KEPT(unsigned short)) { compare(WITH); }
extern "C" __global__ void compare_u32(KEPT(unsigned)) { compare(WITH); }
extern "C" __global__ void compare_u64(KEPT(unsigned long long)) { compare(WITH); }
