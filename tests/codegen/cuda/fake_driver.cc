/* A driver of CUDA without a GPU: memory of the host, and kernels that are twins.
 *
 * An image is a shared library that `tests/codegen/cuda/fake_gpu.py` makes of the code of a program. Whatever is launched
 * runs at once. A library with the symbol `breaks` makes its launches break the context, as an access to memory
 * that is not there does: from then on every call is refused. It stands for NVML, too.
 */
#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define API extern "C" int

static int broken;
typedef void kernel(unsigned blocks, unsigned threads, size_t shared, void **arguments);

struct function {
  void *library;
  kernel *run;
  int shared;
};

API cuInit(unsigned) { return 0; }
API cuDeviceGet(int *device, int) { return *device = 0; }
API cuDevicePrimaryCtxRetain(void **context, int) { return *context = nullptr, 0; }
API cuCtxSetCurrent(void *) { return 0; }
API cuDeviceGetName(char *name, int size, int) { return snprintf(name, size, "A fake GPU"), 0; }
API cuDeviceGetPCIBusId(char *name, int size, int) { return snprintf(name, size, "0000:00:00.0"), 0; }
API cuDriverGetVersion(int *version) { return *version = 13000, 0; }
API cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 2 : attribute == 38 ? 1 << 16 : 1980000;
  return 0;
}
API cuGetErrorString(int status, const char **text) {
  *text = status == 700 ? "an illegal memory access was encountered" : status == 2 ? "out of memory" : "invalid";
  return 0;
}

/* The memory that is free, in bytes. */
static size_t room() {
  const char *said = getenv("FAKE_GPU_FREE");
  return said ? strtoull(said, 0, 10) : (size_t)1 << 34;
}
API cuMemAlloc_v2(uint64_t *address, size_t size) {
  if (broken) return broken;
  if (size > (size_t)1 << 40) return 2;
  void *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *address = (uint64_t)memory;
  return memory == MAP_FAILED ? 2 : 0;
}
API cuMemFree_v2(uint64_t) { return broken; }
API cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { return broken ? broken : (memcpy((void *)to, from, size), 0); }
API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { return broken ? broken : (memcpy(to, (void *)from, size), 0); }
API cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) {
  return broken ? broken : (memcpy((void *)to, (void *)from, size), 0);
}
API cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = *total = room(), broken; }
API cuMemsetD8_v2(uint64_t to, unsigned char byte, size_t size) {
  if (broken) return broken;
  if (size < 1 << 26) memset((void *)to, byte, size); /* what is larger only takes time */
  return 0;
}

API cuModuleLoadData(void **module, const void *image) {
  if (broken) return broken;
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  char path[64];
  int file = memfd_create("module", 0);
  size_t size = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  if (memcmp(head->e_ident, ELFMAG, 4) || write(file, image, size) != (ssize_t)size) return 200;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  return (*module = dlopen(path, RTLD_NOW | RTLD_LOCAL)) ? 0 : 200;
}
API cuModuleUnload(void *) { return broken; }
API cuModuleGetFunction(function **found, void *module, const char *name) {
  char symbol[256];
  snprintf(symbol, sizeof symbol, "run_%s", name);
  kernel *run = (kernel *)dlsym(module, symbol);
  if (!run) return 500;
  *found = (function *)malloc(sizeof **found);
  **found = {module, run, 48 << 10};
  return 0;
}
API cuFuncSetAttribute(function *of, int attribute, int value) { return attribute == 8 ? (of->shared = value, 0) : 1; }
API cuLaunchKernel(
    function *of, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared, void *stream,
    void **arguments, void **extra) {
  if (broken) return broken;
  if (y != 1 || z != 1 || ty != 1 || tz != 1 || stream || extra || !x || threads > 1024 || (int)shared > of->shared) return 1;
  of->run(x, threads, shared, arguments);
  if (dlsym(of->library, "breaks")) broken = 700; /* said by whatever waits for it */
  return 0;
}
API cuCtxSynchronize() { return broken; }

API cuEventCreate(timespec **event, unsigned) { return *event = (timespec *)malloc(sizeof **event), broken; }
API cuEventRecord(timespec *event, void *) { return clock_gettime(CLOCK_MONOTONIC, event), broken; }
API cuEventQuery(timespec *) { return broken ? broken : 600; }
API cuEventSynchronize(timespec *) { return broken; }
API cuEventElapsedTime(float *milliseconds, timespec *start, timespec *end) {
  *milliseconds = (end->tv_sec - start->tv_sec) * 1e3f + (end->tv_nsec - start->tv_nsec) * 1e-6f;
  return broken;
}

API nvmlInit_v2() { return 0; }
API nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **) { return strcmp(bus, "0000:00:00.0"); }
API nvmlDeviceGetClockInfo(void *, int kind, unsigned *clock) { return kind == 1 ? (*clock = 1755, 0) : 1; }
