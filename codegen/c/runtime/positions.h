/* Positions: quotients are rounded down, remainders are not negative. */
static inline int64_t position_quotient(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}
static inline int64_t position_remainder(int64_t a, int64_t b) {
  return a % b + (a % b < 0 ? b : 0);
}
static inline int64_t position_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t position_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}
