/* The bound of candidates of linear algebra on a CPU, from tables: what `cpu.py` defines, on the same vectors.
 *
 * In: a `Model`, which `native.py` fills in, and vectors of candidates. Out: for each vector the greatest time
 * of all terms, in ns, and the times of the terms where they are asked for. Lists of numbers lie in one pool,
 * as a position and a length. Nothing is kept between calls. */
#include <math.h>
#include <stdint.h>

enum { USES = 8, MOST_NEST = 20, MOST_INDICES = 8, WORD_BITS = 64 };
/* MOST_DIMS, MOST_REDUCTIONS, MOST_NESTS and MOST_CUTS are defined on the command line: what the model at hand needs. */
enum { UNITS, CHAIN, LOADS, LEVEL, LOOPS };

/* Inline: the library's are calls, most of the time of a bound. Rounded numbers are below 2^63. */
static inline double greater(double a, double b) { return a > b ? a : b; }
static inline double lesser(double a, double b) { return a < b ? a : b; }
static inline double round_down(double x) { return (double)(int64_t)x; }
static inline double round_up(double x) { double down = round_down(x); return down < x ? down + 1 : down; }

typedef struct { int32_t at, count; } List;

/* A dimension: where its domains lie, and the sizes that it can have. */
typedef struct { int32_t kind_cell, size_cell; List sizes; int32_t is_reduction, pad; } Dim;
typedef struct { int32_t is_even, folds; double iterations, threads, speedup, per_ns[USES]; } Size;
typedef struct { List dims; int32_t pad[2]; double scalar_per_ns[USES], most_per_ns[USES]; } Instr;
typedef struct { int32_t instr, pad; double iterations, sums, spared; } Op;

typedef struct {
  int32_t instr, tables;
  List free, reduced, counters, loads; /* for each three lists: foreign dims; pairs of its own and ours; bits of copies */
  List split, added;
  int32_t table_count, are_disjoint;
  double sums, terms, latency_ns, kept, load_rate;
} Reduction;

typedef struct {
  int32_t instr, pad;
  List made; /* pairs: a dimension of the load, and the one of the nest that follows it */
  List matters, steps /* in reals */, copies /* pairs of a word and bits: a copy may be read instead */;
  double item_bytes, element_bytes;
} Operand;
typedef struct { double kept_bytes; int32_t rates, sharers; } Border;
typedef struct {
  int32_t instr, reduction;
  List dims, index_of, inner_levels, extents, copied, sharing;
  List operands, borders, cuts; /* in tables of their own */
  int32_t order_cells, ragged; /* indices whose last tile may end early, as bits */
  double kept_loads, load_rate;
} Nest;
typedef struct { int32_t inner; List ways; } Cut;

typedef struct { int32_t reduction, nest; List groups; } Sweep;
typedef struct { List fused /* pairs of a word and bits: it may be read at once */; double loaded, stored; } Passed;
typedef struct {
  List passed; /* in a table of its own */
  List dims, streams; /* pairs of a word and bits by which a store may go around the caches */
  int32_t costs, plain_costs; /* by threads: lists of pairs, of what a loaded and a stored byte cost */
  double inner, loaded, stored;
} Level;
/* What counts the unrolled copies of a nest: for each level of its indices three numbers, LEVEL_NUMBERS. */
typedef struct { List levels; int32_t upper_end, pad; } Counter;
typedef struct { List dims, counters /* in a table of their own */; } Unrolled;
typedef struct {
  int32_t kind, use;
  List groups, sweeps; /* UNITS, LOADS */
  int32_t subject, pad; /* CHAIN: reduction; LOOPS: nest; LEVEL: level */
} Term;

typedef struct {
  int32_t dim_count, term_count, reduction_count, nest_count, unrolled_count;
  int32_t vector_bit, unroll_bit, parallel_bit, inner_bits, outer_bits;
  int32_t longest_unrolled, most_tabled, line_bytes, device_threads, has_shared_nests;
  double window, start_ns;
  const int32_t *pool;
  const double *reals;
  const Dim *dims;
  const Size *sizes;
  const Instr *instrs;
  const Op *ops;
  const List *groups;
  const Reduction *reductions;
  const Operand *operands;
  const Border *borders;
  const Nest *nests;
  const Cut *cuts;
  const Sweep *sweeps;
  const Passed *passed;
  const Level *levels;
  const Term *terms;
  const Counter *counters;
  const Unrolled *unrolled;
} Model;

/* What one dimension can still be; as `Freedom` in domains.py. `is_unrolled`: it is, unless it is the vector. */
typedef struct {
  double least, most, lanes, copies, threads, speedup, per_ns[USES];
  int is_vector, may_be_vector, is_even, is_unrolled;
} Freedom;
typedef struct { const Model *m; const uint64_t *vector; double start_ns; Freedom dims[MOST_DIMS]; } View;

static void look(View *v, int number) {
  const Model *m = v->m;
  const Dim *d = &m->dims[number];
  const uint64_t kinds = v->vector[d->kind_cell];
  Freedom f = {.least = INFINITY, .lanes = 1, .copies = 1, .threads = 1, .speedup = 1};
  const int vector = (kinds & (uint64_t)m->vector_bit) != 0, parallel = (kinds & (uint64_t)m->parallel_bit) != 0;
  int is_even = 1;
  for (int b = 0; b < d->sizes.count; b++) {
    if (!(v->vector[d->size_cell + b / WORD_BITS] >> (b % WORD_BITS) & 1)) continue;
    const Size *s = &m->sizes[d->sizes.at + b];
    f.least = lesser(f.least, s->iterations);
    f.most = greater(f.most, s->iterations);
    is_even &= s->is_even;
    if (vector)
      for (int u = 0; u < USES; u++) f.per_ns[u] = greater(f.per_ns[u], s->per_ns[u]);
    if (parallel) {
      f.threads = greater(f.threads, s->threads);
      f.speedup = greater(f.speedup, s->speedup);
    }
  }
  if (f.least == INFINITY) f.least = f.most = 1;
  f.is_even = is_even && kinds == (uint64_t)m->parallel_bit;
  f.may_be_vector = vector;
  if (vector) f.lanes = f.most;
  f.is_vector = vector && kinds == (uint64_t)m->vector_bit;
  if (kinds & (uint64_t)m->unroll_bit) f.copies = f.most;
  f.is_unrolled = (kinds & ~(uint64_t)m->vector_bit) == (uint64_t)m->unroll_bit;
  v->dims[number] = f;
}

/* Whether domains still have any of the values: pairs of a word and bits. */
static int may_be(const View *v, List bits) {
  const int32_t *pairs = v->m->pool + bits.at;
  for (int i = 0; i < bits.count; i += 2)
    if (v->vector[pairs[i]] & (uint64_t)pairs[i + 1]) return 1;
  return 0;
}

static double lanes(const View *v, List dims) {
  double most = 1;
  for (int i = 0; i < dims.count; i++) most = greater(most, v->dims[v->m->pool[dims.at + i]].lanes);
  return most;
}

static double copies(const View *v, List dims, int vector) {
  double product = 1;
  for (int i = 0; i < dims.count; i++)
    if (v->m->pool[dims.at + i] != vector) product *= v->dims[v->m->pool[dims.at + i]].copies;
  return product;
}

/* Of those dimensions that are not in a set, by their positions. */
static int threads_outside(const View *v, List dims, uint32_t inner) {
  double most = 1, product = 1;
  for (int i = 0; i < dims.count; i++) {
    if (inner >> i & 1) continue;
    const double some = v->dims[v->m->pool[dims.at + i]].threads;
    most = greater(most, some);
    product = lesser(product * some, v->m->device_threads);
  }
  return (int)(v->m->has_shared_nests ? product : most);
}

static int threads(const View *v, List dims) { return threads_outside(v, dims, 0); }

static double speedup(const View *v, List dims) {
  double most = 1;
  int shared = 0;
  for (int i = 0; i < dims.count; i++) {
    const Freedom *f = &v->dims[v->m->pool[dims.at + i]];
    most = greater(most, f->speedup);
    shared += f->threads > 1;
  }
  return v->m->has_shared_nests && shared > 1 ? threads(v, dims) : most;
}

/* The least over all lanes of a vector of terms, which are added up. */
static double folded_ns(const View *v, const Dim *d, const Op *op, int use, double fold) {
  double least = INFINITY;
  for (int b = 0; b < d->sizes.count; b++) {
    if (!(v->vector[d->size_cell + b / WORD_BITS] >> (b % WORD_BITS) & 1)) continue;
    const Size *s = &v->m->sizes[d->sizes.at + b];
    const double iterations = greater(0, op->iterations - op->spared * greater(0, s->iterations - 2));
    least = lesser(least, iterations / s->per_ns[use] + s->folds * fold);
  }
  return least;
}

/* The least over all dimensions that can be the vector. */
static double operation_ns(const View *v, const Op *op, int use) {
  const Instr *in = &v->m->instrs[op->instr];
  const double fold = op->sums / in->most_per_ns[use];
  double certain = INFINITY, possible = op->iterations / in->scalar_per_ns[use];
  for (int i = 0; i < in->dims.count; i++) {
    const int number = v->m->pool[in->dims.at + i];
    const Freedom *f = &v->dims[number];
    if (!f->may_be_vector) continue;
    const int is_folded = op->sums > 0 && v->m->dims[number].is_reduction;
    const double time = is_folded ? folded_ns(v, &v->m->dims[number], op, use, fold) : op->iterations / f->per_ns[use];
    possible = lesser(possible, time);
    if (f->is_vector) certain = lesser(certain, time);
  }
  return (certain < INFINITY ? certain : possible) / speedup(v, in->dims);
}

static double sum_of_least(const View *v, List groups, int use) {
  double sum = 0;
  for (int g = 0; g < groups.count; g++) {
    List ops = v->m->groups[groups.at + g];
    double least = INFINITY;
    for (int o = 0; o < ops.count; o++) {
      least = lesser(least, operation_ns(v, &v->m->ops[ops.at + o], use));
    }
    sum += least;
  }
  return sum;
}

/* ---- Vectors that leave room for unrolled copies ---------------------------------------------------- */

enum { LEVEL_NUMBERS = 3 }; /* the dimension, whether it is counted, and the extent where it ends an index, or 0 */

/* The fewest copies, where `vector` is the dimension that is one, or -1. */
static double least_copies(const View *v, List levels, int vector) {
  double product = 1, unrolled = 1, others = 1;
  int is_copied = 0;
  for (int i = 0; i < levels.count; i += LEVEL_NUMBERS) {
    const int32_t *level = v->m->pool + levels.at + i;
    const Freedom *f = &v->dims[level[0]];
    if (f->is_unrolled && level[1] && level[0] != vector) unrolled *= f->least, is_copied = 1;
    else others *= f->most;
    if (!level[2]) continue;
    if (is_copied) product *= greater(unrolled, round_up(level[2] / others));
    unrolled = others = 1, is_copied = 0;
  }
  return product;
}

static int has_room(const View *v, const Unrolled *n, int vector) {
  for (int c = 0; c < n->counters.count; c++) {
    const Counter *counter = &v->m->counters[n->counters.at + c];
    if (least_copies(v, counter->levels, vector) > (double)v->vector[counter->upper_end]) return 0;
  }
  return 1;
}

/* As `UnrolledNest.kinds_left` in unrolling.py. 0 where there is no room, whatever is the vector. */
static int narrow(View *v, const Unrolled *n) {
  const int32_t *dims = v->m->pool + n->dims.at;
  int is_certain = 0, only = -1;
  for (int i = 0; i < n->dims.count; i++) is_certain |= v->dims[dims[i]].is_vector;
  int left = !is_certain && has_room(v, n, -1);
  for (int i = 0; i < n->dims.count; i++) {
    Freedom *f = &v->dims[dims[i]];
    if (!f->may_be_vector) continue;
    if ((f->is_vector || !is_certain) && has_room(v, n, dims[i])) {
      left++;
      only = dims[i];
      continue;
    }
    f->may_be_vector = f->is_vector = 0;
    f->lanes = 1;
    for (int u = 0; u < USES; u++) f->per_ns[u] = 0;
  }
  if (left == 1 && only >= 0) {
    Freedom *f = &v->dims[only];
    f->is_vector = 1;
    f->copies = f->threads = f->speedup = 1;
  }
  return left;
}

/* ---- Reductions ------------------------------------------------------------------------------------- */

/* Most unrolled copies; `vector`, if it is a dimension, is none of them. */
static double accumulators(const View *v, const Reduction *r, int vector) {
  double most = copies(v, r->free, vector);
  for (int c = 0; c < r->counters.count; c++)
    most = lesser(most, (double)v->vector[v->m->pool[r->counters.at + c]]);
  return most;
}

static double cost(double window, double terms, double a) {
  return greater((terms - window / a) / a, terms / (round_up((window - 1) / (a * terms)) + 1) / a);
}

/* Tables hold, for each possible number of terms, that number and the least cost of up to 1, 2, .. sums. */
static double sum_steps(const Model *m, const Reduction *r, double terms, double most) {
  if (!(terms > m->longest_unrolled)) return 0;
  for (int t = 0; t < r->table_count; t++) {
    const double *table = m->reals + r->tables + t * (m->most_tabled + 1);
    if (table[0] != terms) continue;
    if (most <= m->most_tabled) return table[(int)most];
    return lesser(table[m->most_tabled], cost(m->window, terms, most));
  }
  return 0; /* no number of lanes that is possible at the root gives so many terms */
}

enum { LOAD_NUMBERS = 6 };

/* Most vectors of a load's values that one instruction loads: more than 1 through a copy. */
static double width(const View *v, const int32_t *load, int vector) {
  const List foreign = {load[0], load[1]}, made = {load[2], load[3]}, bits = {load[4], load[5]};
  if (!may_be(v, bits)) return 1;
  double along = vector < 0 ? 1 : v->dims[vector].lanes, most = 1;
  for (int i = 0; i < foreign.count; i++)
    if (v->m->pool[foreign.at + i] == vector) along = 1;
  for (int i = 0; i < made.count; i += 2) {
    const int own = v->m->pool[made.at + i], used = v->m->pool[made.at + i + 1];
    most = greater(most, used < 0 ? v->dims[own].lanes : lesser(v->dims[own].lanes, v->dims[used].copies));
  }
  return greater(1, most / along);
}

static double widest(const View *v, const Reduction *r, int vector) {
  double most = 1;
  for (int i = 0; i < r->loads.count; i += LOAD_NUMBERS)
    most = greater(most, width(v, v->m->pool + r->loads.at + i, vector));
  return most;
}

static double loads_per_term(const View *v, const Reduction *r, int vector, double most) {
  double shared[2] = {0, 0}, wide[2] = {1, 1}, sum = 0;
  const int count = r->loads.count / LOAD_NUMBERS;
  for (int i = 0; i < count; i++) {
    const int32_t *load = v->m->pool + r->loads.at + LOAD_NUMBERS * i;
    const List dims = {load[0], load[1]};
    const double c = lesser(copies(v, dims, vector), most), w = width(v, load, vector);
    if (i < 2) shared[i] = c, wide[i] = w;
    sum += 1 / (c * w);
  }
  if (count != 2 || !r->are_disjoint) return sum;
  double least = INFINITY;
  for (double a = 1; a <= shared[0]; a++)
    least = lesser(least, 1 / (a * wide[0]) + 1 / (lesser(shared[1], round_down(most / a)) * wide[1]));
  return least;
}

/* The least over all dimensions that can be the vector, and over none: latencies, and loads. */
static void reduce(const View *v, const Reduction *r, double *chain_ns, double *loads_ns) {
  const Model *m = v->m;
  *chain_ns = *loads_ns = 0;
  if (may_be(v, r->added)) return;
  const List dims = m->instrs[r->instr].dims;
  const double speedup_of_sums = speedup(v, r->free), share = speedup(v, r->reduced);
  double latencies = INFINITY, loads = INFINITY;
  int is_certain = 0;
  for (int i = 0; i < dims.count; i++) is_certain |= v->dims[m->pool[dims.at + i]].is_vector;
  for (int i = is_certain ? 0 : -1; i < dims.count; i++) {
    const int vector = i < 0 ? -1 : m->pool[dims.at + i];
    const Freedom *f = i < 0 ? 0 : &v->dims[vector];
    if (f && !(is_certain ? f->is_vector : f->may_be_vector)) continue;
    int is_reduced = 0;
    for (int k = 0; k < r->reduced.count; k++) is_reduced |= m->pool[r->reduced.at + k] == vector;
    const double side = f ? f->lanes : 1, most = accumulators(v, r, vector);
    const double sums = is_reduced ? r->sums : r->sums / side;
    const double split = may_be(v, r->split) ? copies(v, r->reduced, vector) : 1;
    /* Threads share the sums out, or the terms of each. */
    for (int way = 0; way < (share > 1 ? 2 : 1); way++) {
      double terms = is_reduced ? r->terms / side : r->terms, faster = way ? 1 : speedup_of_sums;
      if (way) terms /= share;
      if (!(terms > m->longest_unrolled)) terms = 0;
      latencies = lesser(latencies, sums * sum_steps(m, r, terms, most) / split / faster);
      if (r->loads.count && loads > 0) {
        const double missing = greater(0, terms - r->kept * widest(v, r, vector));
        loads = lesser(loads, sums * missing * loads_per_term(v, r, vector, most) / faster);
      }
    }
  }
  *chain_ns = r->latency_ns * latencies;
  *loads_ns = r->loads.count ? loads / r->load_rate : 0;
}

/* ---- Orders of loops -------------------------------------------------------------------------------- */

typedef struct {
  const View *v;
  const Nest *n;
  double least[MOST_NEST], most[MOST_NEST];
  uint32_t inside[MOST_NEST], outside[MOST_NEST], of_index[MOST_INDICES];
  double corners[1 << MOST_INDICES][MOST_INDICES];
  int corner_count;
} Loops;

/* As `average` in loop_orders.py: what pieces of a ragged index have on average. */
static double average(double extent, double size) { return extent / round_up(extent / size); }

static void corners(Loops *l, uint32_t inner) {
  const Model *m = l->v->m;
  const Nest *n = l->n;
  l->corner_count = 1;
  for (int x = 0; x < n->extents.count; x++) {
    double extent = m->pool[n->extents.at + x], within[2] = {1, 1}, around[2] = {1, 1};
    for (int d = 0; d < n->dims.count; d++) {
      if (m->pool[n->index_of.at + d] != x) continue;
      double *product = inner >> d & 1 ? within : around;
      product[0] *= l->least[d];
      product[1] *= l->most[d];
    }
    double least = greater(within[0], round_up(extent / around[1]));
    double most = greater(least, lesser(within[1], round_down(extent / around[0])));
    if (n->ragged >> x & 1) {
      most = average(extent, greater(least, lesser(within[1], extent)));
      least = average(extent, least);
    }
    const int before = l->corner_count;
    for (int c = 0; c < before; c++) l->corners[c][x] = least;
    if (most == least) continue;
    for (int c = 0; c < before; c++) {
      for (int y = 0; y < x; y++) l->corners[before + c][y] = l->corners[c][y];
      l->corners[before + c][x] = most;
    }
    l->corner_count = 2 * before;
  }
}

static double elements(const Loops *l, const Operand *o, const double *sizes) {
  double product = 1;
  for (int x = 0; x < o->matters.count; x++)
    if (l->v->m->pool[o->matters.at + x]) product *= sizes[x];
  return product;
}

static double segments(const Loops *l, const double *sizes) {
  double product = 1;
  for (int x = 0; x < l->n->extents.count; x++) product *= l->v->m->pool[l->n->extents.at + x] / sizes[x];
  return product;
}

/* Puts a pair where it belongs, small steps first; the number of pairs. */
static int add_steps(double *step, double *count, int found, double s, double c) {
  int at = found;
  for (; at > 0 && (step[at - 1] > s || (step[at - 1] == s && count[at - 1] > c)); at--) {
    step[at] = step[at - 1];
    count[at] = count[at - 1];
  }
  step[at] = s;
  count[at] = c;
  return found + 1;
}

/* Whether some levels of an index lie inside a cut and others outside. */
static int is_split(const Loops *l, uint32_t inner, int x) { return l->of_index[x] & inner && l->of_index[x] & ~inner; }

/* As `least_lines` in certain.py, of the dimensions inside a cut. */
static double lines(const Loops *l, const Operand *o, uint32_t inner) {
  const Model *m = l->v->m;
  const Nest *n = l->n;
  double step[MOST_NEST], count[MOST_NEST];
  int found = 0;
  if (may_be(l->v, o->copies)) return 0;
  for (int x = 0; x < n->extents.count; x++) {
    const double s = m->reals[o->steps.at + x];
    if (s && !(l->of_index[x] & ~inner)) found = add_steps(step, count, found, s, m->pool[n->extents.at + x]);
  }
  for (int d = 0; d < n->dims.count; d++) {
    const int x = m->pool[n->index_of.at + d];
    double s = m->reals[o->steps.at + x];
    if (!s || !is_split(l, inner, x)) continue;
    if (l->least[d] != l->most[d]) return 0;
    if (!(inner >> d & 1)) continue;
    for (int e = 0; e < n->dims.count; e++)
      if (m->pool[n->inner_levels.at + d] >> e & 1) s *= l->least[e];
    found = add_steps(step, count, found, s, l->least[d]);
  }
  double span = o->item_bytes, total = 1, whole = 1;
  int is_solid = 1;
  for (int x = 0; x < n->extents.count; x++) {
    if (!(n->ragged >> x & 1) || !m->reals[o->steps.at + x] || !is_split(l, inner, x)) continue;
    double size = 1;
    for (int d = 0; d < n->dims.count; d++)
      if (inner >> d & 1 && m->pool[n->index_of.at + d] == x) size *= l->least[d];
    const double pieces = m->pool[n->extents.at + x] / size;
    whole *= round_down(pieces) / round_up(pieces);
  }
  for (int i = 0; i < found; i++) {
    if (is_solid && step[i] - span < m->line_bytes) {
      span += (count[i] - 1) * step[i];
      total = round_up(span / m->line_bytes);
    } else if (step[i] - span >= m->line_bytes) {
      total *= count[i];
      span += (count[i] - 1) * step[i];
      is_solid = 0;
    } else {
      break;
    }
  }
  return total * whole;
}

static int has_registers(const Loops *l, uint32_t inner, int dim) {
  const Model *m = l->v->m;
  uint32_t copied = inner & (uint32_t)m->pool[l->n->copied.at + dim];
  double least = 1, widest = 1;
  if (!copied || l->n->reduction < 0) return 1;
  for (int d = 0; d < l->n->dims.count; d++)
    if (copied >> d & 1) {
      least *= l->least[d];
      widest = greater(widest, l->v->dims[m->pool[l->n->dims.at + d]].lanes);
    }
  return least <= accumulators(l->v, &m->reductions[l->n->reduction], -1) * widest;
}

/* The least over all orders of the greatest pressure at any cut: of loads, and of bytes that cross borders. */
static void order_ns(const View *v, const Nest *n, double *loads_ns, double *bytes_ns) {
  static _Thread_local Loops l;
  static _Thread_local double best[2][MOST_CUTS];
  const Model *m = v->m;
  const int dims = n->dims.count;
  const uint32_t everything = (1u << dims) - 1;
  l.v = v;
  l.n = n;
  for (int x = 0; x < n->extents.count; x++) l.of_index[x] = 0;
  for (int d = 0; d < dims; d++) {
    l.of_index[m->pool[n->index_of.at + d]] |= 1u << d;
    const Freedom *f = &v->dims[m->pool[n->dims.at + d]];
    l.least[d] = f->least;
    l.most[d] = f->most;
    l.inside[d] = l.outside[d] = 0;
    for (int e = 0; e < dims; e++) {
      if (e == d) continue;
      const uint64_t order = v->vector[m->pool[n->order_cells + d * dims + e]];
      if (order & (uint64_t)m->outer_bits) l.inside[d] |= 1u << e;
      if (order & (uint64_t)m->inner_bits) l.outside[d] |= 1u << e;
    }
  }
  const double widest = lanes(v, n->dims), faster = speedup(v, n->dims);
  const int used = threads(v, n->sharing);
  double operand_lanes[MOST_INDICES], element_bytes[MOST_INDICES], touched_lines[MOST_INDICES];
  for (int o = 0; o < n->operands.count; o++) {
    const Operand *operand = &m->operands[n->operands.at + o];
    operand_lanes[o] = lanes(v, m->instrs[operand->instr].dims);
    element_bytes[o] = may_be(v, operand->copies) ? operand->item_bytes : operand->element_bytes;
  }
  for (int position = n->cuts.count - 1; position >= 0; position--) {
    const Cut *cut = &m->cuts[n->cuts.at + position];
    const uint32_t inner = (uint32_t)cut->inner;
    corners(&l, inner);
    /* Segments of different threads may run side by side, and one brings in what all of them need. */
    const int beside = threads_outside(v, n->dims, inner);
    double own[2] = {INFINITY, 0};
    for (int o = 0; o < n->operands.count; o++)
      touched_lines[o] = lines(&l, &m->operands[n->operands.at + o], inner);
    double made_lanes[MOST_INDICES], crossing[MOST_INDICES];
    for (int o = 0; o < n->operands.count; o++) {
      const List made = m->operands[n->operands.at + o].made;
      made_lanes[o] = operand_lanes[o];
      for (int i = 0; i < made.count; i += 2)
        if (inner >> m->pool[made.at + i + 1] & 1)
          made_lanes[o] = greater(made_lanes[o], v->dims[m->pool[made.at + i]].lanes);
    }
    for (int b = 0; b < n->borders.count; b++) crossing[b] = INFINITY;
    for (int c = 0; c < l.corner_count; c++) {
      const double *sizes = l.corners[c];
      double times = segments(&l, sizes), loads = 0, touched = 0, work = 1;
      for (int x = 0; x < n->extents.count; x++) work *= sizes[x];
      for (int o = 0; o < n->operands.count; o++) {
        const Operand *operand = &m->operands[n->operands.at + o];
        double distinct = elements(&l, operand, sizes);
        loads += distinct / made_lanes[o];
        touched += greater(distinct * element_bytes[o], touched_lines[o] * m->line_bytes);
      }
      double missing = work / widest < m->longest_unrolled ? 0 : greater(0, loads - n->kept_loads);
      own[0] = lesser(own[0], times * missing / (n->load_rate * faster));
      for (int b = 0; b < n->borders.count; b++) {
        const Border *border = &m->borders[n->borders.at + b];
        double rate = m->reals[border->rates + used];
        const double runs = times / (beside < border->sharers ? beside : border->sharers);
        crossing[b] = lesser(crossing[b], runs * greater(0, touched - border->kept_bytes) / rate);
      }
    }
    if (inner != everything)
      for (int b = 0; b < n->borders.count; b++) own[1] = greater(own[1], crossing[b]);
    /* A set from which no order goes on is passed by none. */
    double beyond[2] = {INFINITY, INFINITY};
    if (inner == everything) beyond[0] = beyond[1] = 0;
    for (int w = 0; w < cut->ways.count; w++) {
      const int dim = m->pool[cut->ways.at + 2 * w], to = m->pool[cut->ways.at + 2 * w + 1];
      if (inner & ~l.inside[dim] || everything & ~inner & ~(1u << dim) & ~l.outside[dim]) continue;
      if (!has_registers(&l, inner, dim)) continue;
      for (int k = 0; k < 2; k++) beyond[k] = lesser(beyond[k], best[k][to]);
    }
    for (int k = 0; k < 2; k++) best[k][position] = greater(own[k], beyond[k]);
  }
  *loads_ns = best[0][0] == INFINITY ? 0 : best[0][0];
  *bytes_ns = best[1][0] == INFINITY ? 0 : best[1][0];
}

/* ---- All terms -------------------------------------------------------------------------------------- */

/* What reductions and nests cost, by number. */
typedef struct { double chain[MOST_REDUCTIONS], again[MOST_REDUCTIONS], loads[MOST_NESTS], bytes[MOST_NESTS]; } Costs;

static double started_ns(const View *v, double time_ns) { return time_ns > 0 ? time_ns + v->start_ns : time_ns; }

/* As `least_ns` in traffic.py: the least over what caches save of the greatest of straight lines. */
static double greatest_ns(const double *costs, int count, double loaded, double stored) {
  double most = 0;
  for (int c = 0; c < count; c++) most = greater(most, costs[2 * c] * loaded + costs[2 * c + 1] * stored);
  return most;
}

static double least_ns(const double *costs, int count, double loaded, double stored, double kept, double again) {
  kept = lesser(kept, loaded + stored);
  const double low = greater(0, kept - loaded), high = lesser(kept, stored), left = loaded - kept + again;
  double least = lesser(greatest_ns(costs, count, left + low, stored - low),
                        greatest_ns(costs, count, left + high, stored - high));
  for (const double *a = costs; a < costs + 2 * count; a += 2)
    for (const double *b = a + 2; b < costs + 2 * count; b += 2) {
      const double slope = (a[0] - a[1]) - (b[0] - b[1]);
      const double x = slope != 0 ? (b[0] * left + b[1] * stored - a[0] * left - a[1] * stored) / slope : INFINITY;
      if (low < x && x < high) least = lesser(least, greatest_ns(costs, count, left + x, stored - x));
    }
  return least;
}

static double level_ns(const View *v, const Level *l) {
  const Model *m = v->m;
  const int used = threads(v, l->dims);
  double again = 0, stored = l->stored;
  for (int p = 0; p < l->passed.count; p++) {
    const Passed *passed = &m->passed[l->passed.at + p];
    if (may_be(v, passed->fused)) continue;
    again += passed->loaded;
    stored += passed->stored;
  }
  const int32_t *edges = m->pool + (may_be(v, l->streams) ? l->costs : l->plain_costs) + 2 * used;
  return least_ns(m->reals + edges[0], edges[1], l->loaded, stored, l->inner, again);
}

static double term_ns(const View *v, const Term *t, const Costs *costs) {
  const Model *m = v->m;
  switch (t->kind) {
    case UNITS: return started_ns(v, sum_of_least(v, t->groups, t->use));
    case CHAIN: return started_ns(v, costs->chain[t->subject]);
    case LOADS: {
      double sum = sum_of_least(v, t->groups, t->use);
      for (int s = 0; s < t->sweeps.count; s++) {
        const Sweep *sweep = &m->sweeps[t->sweeps.at + s];
        double again = costs->again[sweep->reduction];
        if (sweep->nest >= 0) again = greater(again, costs->loads[sweep->nest]);
        sum += greater(again, sum_of_least(v, sweep->groups, t->use));
      }
      return started_ns(v, sum);
    }
    case LEVEL: return level_ns(v, &m->levels[t->subject]);
    default: return costs->bytes[t->subject];
  }
}

/* `terms`: room for the times of all terms of each vector, or null. */
__attribute__((visibility("default"))) void bounds(const Model *m, int32_t count, const uint64_t *const *vectors,
                                                   double *bounds_ns, double *terms) {
  static _Thread_local View v;
  Costs costs;
  for (int32_t i = 0; i < count; i++) {
    v.m = m;
    v.vector = vectors[i];
    v.start_ns = 0;
    for (int d = 0; d < m->dim_count; d++) {
      look(&v, d);
      if (v.dims[d].is_even) v.start_ns = m->start_ns;
    }
    int is_possible = 1;
    for (int c = 0; c < m->unrolled_count; c++) is_possible = is_possible && narrow(&v, &m->unrolled[c]);
    if (!is_possible) {
      bounds_ns[i] = INFINITY;
      for (int t = 0; terms && t < m->term_count; t++) terms[(int64_t)i * m->term_count + t] = INFINITY;
      continue;
    }
    for (int r = 0; r < m->reduction_count; r++) reduce(&v, &m->reductions[r], &costs.chain[r], &costs.again[r]);
    for (int n = 0; n < m->nest_count; n++) order_ns(&v, &m->nests[n], &costs.loads[n], &costs.bytes[n]);
    double most = 0;
    for (int t = 0; t < m->term_count; t++) {
      double time = term_ns(&v, &m->terms[t], &costs);
      if (terms) terms[(int64_t)i * m->term_count + t] = time;
      most = greater(most, time);
    }
    bounds_ns[i] = most;
  }
}
