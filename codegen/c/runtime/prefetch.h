/* Asks for the line so many bytes from where a tensor begins. Where there is no memory, nothing happens. */
static inline void pool_prefetch(const void *tensor, int64_t bytes) {
  __builtin_prefetch((const void *)((uintptr_t)tensor + (uintptr_t)bytes));
}

/* The same, into the second cache. */
static inline void pool_prefetch_far(const void *tensor, int64_t bytes) {
  __builtin_prefetch((const void *)((uintptr_t)tensor + (uintptr_t)bytes), 0, 2);
}
