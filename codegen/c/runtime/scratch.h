/* Memory of the implementation's own: allocated at the first call, filled with zeros, freed when the library is
 * unloaded. Calls from several threads follow each other. Without memory, the program ends with a message.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SCRATCH_HUGE_PAGE = 2 << 20 };

static pthread_mutex_t scratch_callers = PTHREAD_MUTEX_INITIALIZER;
static void *scratch_arrays[SCRATCH_ARRAYS];

static void *scratch_array(int number, size_t nbytes) {
  if (scratch_arrays[number]) return scratch_arrays[number];
  size_t alignment = nbytes >= 2 * SCRATCH_HUGE_PAGE ? SCRATCH_HUGE_PAGE : 64;
  size_t padded = (nbytes + alignment - 1) / alignment * alignment;
  void *array = aligned_alloc(alignment, padded);
  if (!array) {
    fprintf(stderr, "no memory for %zu bytes of intermediate values\n", nbytes);
    abort();
  }
  if (alignment == SCRATCH_HUGE_PAGE) madvise(array, padded, MADV_HUGEPAGE);
  memset(array, 0, padded);
  return scratch_arrays[number] = array;
}

__attribute__((destructor)) static void scratch_end(void) {
  for (int i = 0; i < SCRATCH_ARRAYS; ++i) free(scratch_arrays[i]);
}
