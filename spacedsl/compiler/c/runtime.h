/* What generated propagators stand on: the instance they run in, the state they change, operations on domains.
 *
 * Whoever compiles it defines OBJECT_WORDS (words of a set of objects), ROW_WORDS (those of them that hold the
 * objects of bit rows, which have the least numbers) and MASK_WORDS (words of an integer's mask
 * that are in use); FOLLOWED_BITS stands before this text. Every operation returns false for a contradiction. All
 * vectors are laid out as spacedsl/engine/layout.py says. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Word;
typedef __int128 Wide; /* exact integers; beyond 126 bits they saturate */

#define OBJECTS (64 * OBJECT_WORDS)
#define INTEGER_WORDS 4 /* of the vector */
#define SATURATED ((Wide)UINT64_MAX)
#define WIDEST ((Wide)((~(unsigned __int128)0) >> 1))
#define ABSENT 1
#define PRESENT 2
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* What is known of the word at which a domain begins. */
typedef struct {
    int32_t twin;   /* the other orientation of a pair, or -1 */
    int32_t row;    /* of bit rows: where those of the first object begin, or -1 */
    int32_t bit;    /* in them: the second object */
    int32_t source; /* which wake function serves it, 0: none */
    int32_t key;    /* where its objects begin in `keys` */
    int32_t active; /* where the bits of its wakes begin in `active` */
    int32_t universe; /* where its universe begins in `universes` */
    int32_t updates;  /* where the memberships that it is a reason for begin in `reasons`, 0: none */
    int32_t leaves;   /* where the leaves that read it begin in `links` */
    int32_t asks;     /* where the calls that a change of it may concern begin in `links` */
    int32_t is_decision;
} Cell;

/* Of the graph of quantities: what spacedsl/engine/quantities/nodes.py says, lists being in `links`. */
typedef struct {
    int32_t op, cell;
    int32_t operands, count; /* where they begin, and how many */
    int32_t data;            /* where it begins in `node_data` */
    int32_t users, calls;    /* each list: how many, then those */
    int32_t is_standing;     /* whether it must hold whatever is decided */
} Node;

/* A space on a kernel and a device: filled once, then only read, by any number of threads. */
typedef struct {
    int32_t words;      /* of a vector */
    int32_t row_words;  /* of all bit rows */
    const Word *initial;
    const Word *initial_rows;
    const Cell *cells;
    const int32_t *keys;
    const Word *active;
    const int64_t *universes; /* each: how many, then the values in order */
    const int32_t *lists;     /* each: how many, then object ids */
    const Word *sets;         /* OBJECT_WORDS each */
    const Word *masks;        /* MASK_WORDS each */
    const int32_t *reasons;   /* see `update_presence` */
    const void *const *tables;
    int32_t node_count; /* 0: there is no graph, or not yet */
    int32_t call_count;
    const Node *nodes;
    const int64_t *node_data;
    const int32_t *links;
    const int32_t *calls; /* by number: where it begins in `links`: a propagator, then objects */
} Instance;

typedef struct {
    int32_t node;
    int64_t low, high;
} Undo;

/* One vector at work, and what waits to be propagated. */
typedef struct {
    const Instance *of;
    Word *v;    /* the vector, and behind it the bit rows */
    Word *rows;
    int64_t *low, *high; /* behind those, the intervals of nodes */
    Word *saved; /* a copy of all of them */
    Word *before;     /* by cell that waits: its value when it was queued; of a counter, whether it was limited */
    uint8_t *waiting; /* by cell: whether it is in the queue */
    uint8_t *dirty;   /* by counter's cell: whether it is to be computed */
    int32_t *queue;
    int32_t first, queued, ring;
    int32_t *later;
    int32_t latest;
    int32_t fault; /* 1 + the number of the check that failed, 0: none */
    Word fault_value[2];
    /* Of the graph, if there is one. */
    Word *pending;    /* nodes to compute */
    uint8_t *differs; /* by node: whether it differs from that of the vector that was loaded, or last at rest */
    int32_t *differing;
    int32_t differing_count;
    bool any_differs, is_dirty, is_stale, is_collecting;
    uint8_t *asked; /* by call: whether it waits */
    int32_t *asks;
    int32_t ask_count;
    uint8_t *is_required; /* by node */
    int32_t *required;
    int32_t required_count;
    uint8_t *live; /* by node, twice */
    int32_t *stack;
    Undo *undo;
    uint8_t *is_tried; /* by cell */
    int32_t *tried;
} State;

static inline const int32_t *key_of(const State *s, int32_t cell) { return s->of->keys + s->of->cells[cell].key; }

/* ---- Objects and sets ---- */

#define FOR_MEMBERS(x, list) \
    for (const int32_t *at_##x = (list), *end_##x = at_##x + 1 + *at_##x; ++at_##x < end_##x;)

static inline const int32_t *list_at(const State *s, int32_t at) { return s->of->lists + at; }
static inline const Word *set_at(const State *s, int32_t at) { return s->of->sets + at; }
static inline const Word *masks_at(const State *s, int32_t at) { return s->of->masks + at; }

static inline bool has(const Word *set, int32_t object) { return set[object >> 6] >> (object & 63) & 1; }

/* In word number `word` of a set: all objects but one. */
static inline Word all_but(int32_t object, int32_t word)
{
    return object >> 6 == word ? ~((Word)1 << (object & 63)) : ~(Word)0;
}

/* Value number `value` of bit rows, in the word at work: for which objects the domain still has it. */
#define ROW(number, value) row##number[(value) * ROW_WORDS + word]

/* The place of a key of more than two objects: `ranks` holds a size for each position, then ranks by object. */
static inline int64_t place(const int32_t *ranks, int32_t arity, const int32_t *key)
{
    int64_t at = 0;
    for (int32_t i = 0; i < arity; i++)
        at = at * ranks[i] + ranks[arity + i * OBJECTS + key[i]];
    return at;
}

/* ---- Exact integers ---- */

static inline bool is_short(Wide a) { return a == (int64_t)a; }

static inline Wide add(Wide a, Wide b)
{
    Wide sum;
    if (UNLIKELY(__builtin_add_overflow(a, b, &sum)))
        return a > 0 ? WIDEST : -WIDEST;
    return sum;
}

static inline Wide subtract(Wide a, Wide b) { return add(a, -b); }

static inline Wide multiply(Wide a, Wide b)
{
    Wide product;
    if (is_short(a) && is_short(b))
        return (Wide)(int64_t)a * (int64_t)b;
    if (UNLIKELY(__builtin_mul_overflow(a, b, &product)))
        return (a > 0) == (b > 0) ? WIDEST : -WIDEST;
    return product;
}

/* Rounding down; the divisor is positive. */
static inline Wide divide(Wide a, Wide b)
{
    if (a >= 0 && is_short(a) && is_short(b))
        return (Word)a / (Word)b;
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static inline Wide divide_up(Wide a, Wide b) { return -divide(-a, b); }
static inline Wide least_of(Wide a, Wide b) { return a < b ? a : b; }
static inline Wide greatest_of(Wide a, Wide b) { return a > b ? a : b; }

static inline bool check(State *s, int32_t number, Wide value, Wide least)
{
    if (value >= least)
        return true;
    s->fault = number + 1;
    s->fault_value[0] = (Word)value;
    s->fault_value[1] = (Word)(value >> 64);
    return false;
}

/* ---- The queue ---- */

static inline void enqueue(State *s, int32_t cell)
{
    s->waiting[cell] = 1;
    s->queue[(s->first + s->queued++) & s->ring] = cell;
}

static inline void compute_later(State *s, int32_t cell)
{
    if (!s->dirty[cell]) {
        s->dirty[cell] = 1;
        s->later[s->latest++] = cell;
    }
}

/* Takes lost values out of the bit rows of a cell. */
static inline void drop(State *s, const Cell *c, Word lost)
{
    Word *const row = s->rows + c->row + (c->bit >> 6);
    const Word keep = ~((Word)1 << (c->bit & 63));
    for (; lost; lost &= lost - 1)
        row[__builtin_ctzll(lost) * ROW_WORDS] &= keep;
}

/* ---- Enums and presence: one word ---- */

static inline bool narrow(State *s, int32_t cell, Word mask)
{
    const Word before = s->v[cell];
    if (!mask)
        return false;
    s->v[cell] = mask;
    if (s->of->cells[cell].row >= 0)
        drop(s, s->of->cells + cell, before ^ mask);
    if (!s->waiting[cell]) {
        s->before[cell] = before;
        enqueue(s, cell);
    }
    return true;
}

/* Both orientations of a pair, whose masks are `mask` and `mirrored`; it waits in the one that comes first. */
static inline bool narrow_pair(State *s, int32_t cell, Word mask, Word mirrored)
{
    const Cell *const c = s->of->cells + cell;
    const int32_t other = c->twin;
    if (!mask)
        return false;
    const Word before = s->v[cell], other_before = s->v[other];
    s->v[cell] = mask;
    s->v[other] = mirrored;
    if (c->row >= 0) {
        drop(s, c, before ^ mask);
        drop(s, s->of->cells + other, other_before ^ mirrored);
    }
    const int32_t waits = other < cell ? other : cell;
    if (!s->waiting[waits]) {
        s->before[waits] = other < cell ? other_before : before;
        enqueue(s, waits);
    }
    return true;
}

static inline bool is_several(Word mask) { return (mask & (mask - 1)) != 0; }

/* The mask in another enum's values: value b there has number numbers[b]. */
static inline Word translated(Word mask, const uint8_t *numbers)
{
    Word result = 0;
    for (; mask; mask &= mask - 1)
        result |= (Word)1 << numbers[__builtin_ctzll(mask)];
    return result;
}

/* The values at or before the last one of a mask, or strictly before; at or after its first one. */
static inline Word up_to_last(Word mask, int32_t strict)
{
    const int32_t bits = 64 - __builtin_clzll(mask) - strict;
    return bits == 64 ? ~(Word)0 : ((Word)1 << bits) - 1;
}

static inline Word from_first(Word mask, int32_t strict) { return -((mask & -mask) << strict); }

/* ---- Integers: a mask over a universe ---- */

static inline const int64_t *universe_of(const State *s, int32_t cell)
{
    return s->of->universes + s->of->cells[cell].universe;
}

static inline int32_t lowest(const Word *mask)
{
    int32_t word = 0;
    while (word < MASK_WORDS - 1 && !mask[word])
        word++;
    return word * 64 + __builtin_ctzll(mask[word]);
}

static inline int32_t highest(const Word *mask)
{
    int32_t word = MASK_WORDS - 1;
    while (word > 0 && !mask[word])
        word--;
    return word * 64 + 63 - __builtin_clzll(mask[word]);
}

static inline Wide least(const State *s, int32_t cell) { return universe_of(s, cell)[1 + lowest(s->v + cell)]; }
static inline Wide greatest(const State *s, int32_t cell) { return universe_of(s, cell)[1 + highest(s->v + cell)]; }

static inline bool meets(const State *s, int32_t cell, const Word *mask)
{
    Word shared = 0;
    for (int32_t i = 0; i < MASK_WORDS; i++)
        shared |= s->v[cell + i] & mask[i];
    return shared != 0;
}

static inline bool keep(State *s, int32_t cell, const Word *mask)
{
    Word shared[MASK_WORDS], some = 0, lost = 0;
    for (int32_t i = 0; i < MASK_WORDS; i++) {
        shared[i] = s->v[cell + i] & mask[i];
        some |= shared[i];
        lost |= shared[i] ^ s->v[cell + i];
    }
    if (!lost)
        return true;
    if (!some)
        return false;
    if (!s->waiting[cell]) {
        for (int32_t i = 0; i < MASK_WORDS; i++)
            s->before[cell + i] = s->v[cell + i];
        enqueue(s, cell);
    }
    for (int32_t i = 0; i < MASK_WORDS; i++)
        s->v[cell + i] = shared[i];
    return true;
}

/* Whether all values of `gate` have been lost since `before`. */
static inline bool lost_all(const State *s, int32_t cell, const Word *before, const Word *gate)
{
    Word had = 0;
    for (int32_t i = 0; i < MASK_WORDS; i++)
        had |= before[i] & gate[i];
    return had && !meets(s, cell, gate);
}

static inline bool keep_from(State *s, int32_t cell, Wide bound)
{
    const int64_t *const values = universe_of(s, cell) + 1;
    Word mask[MASK_WORDS];
    memcpy(mask, s->v + cell, sizeof mask);
    for (int32_t i = 0; i < MASK_WORDS; i++) {
        for (; mask[i]; mask[i] &= mask[i] - 1)
            if (values[i * 64 + __builtin_ctzll(mask[i])] >= bound)
                return keep(s, cell, mask);
    }
    return false;
}

static inline bool keep_to(State *s, int32_t cell, Wide bound)
{
    const int64_t *const values = universe_of(s, cell) + 1;
    Word mask[MASK_WORDS];
    memcpy(mask, s->v + cell, sizeof mask);
    for (int32_t i = MASK_WORDS - 1; i >= 0; i--) {
        while (mask[i]) {
            const int32_t bit = 63 - __builtin_clzll(mask[i]);
            if (values[i * 64 + bit] <= bound)
                return keep(s, cell, mask);
            mask[i] ^= (Word)1 << bit;
        }
    }
    return false;
}

/* factor * value <= bound */
static inline bool cap_integer(State *s, int32_t cell, Wide factor, Wide bound)
{
    if (factor > 0)
        return keep_to(s, cell, divide(bound, factor));
    if (factor < 0)
        return keep_from(s, cell, -divide(bound, -factor));
    return bound >= 0;
}

/* ---- Counters: two words, an interval ---- */

static inline bool set_interval(State *s, int32_t cell, Wide low, Wide high, Word limited)
{
    if (low > high)
        return false;
    s->v[cell] = (Word)low;
    s->v[cell + 1] = (Word)high;
    if (!s->waiting[cell]) {
        s->before[cell] = limited;
        enqueue(s, cell);
    } else if (limited) {
        s->before[cell] = limited;
    }
    return true;
}

/* What the contributions give: it does not wake the counter itself. */
static inline bool settle(State *s, int32_t cell, Wide low, Wide high)
{
    if (low <= s->v[cell] && high >= s->v[cell + 1])
        return true;
    return set_interval(s, cell, greatest_of(low, s->v[cell]), least_of(high, s->v[cell + 1]), 0);
}

static inline bool keep_above(State *s, int32_t cell, Wide bound)
{
    return bound <= s->v[cell] || set_interval(s, cell, bound, s->v[cell + 1], 1);
}

static inline bool keep_below(State *s, int32_t cell, Wide bound)
{
    return bound >= s->v[cell + 1] || set_interval(s, cell, s->v[cell], bound, 1);
}

/* factor * value <= bound */
static inline bool cap_counter(State *s, int32_t cell, Wide factor, Wide bound)
{
    if (factor > 0)
        return keep_below(s, cell, divide(bound, factor));
    if (factor < 0)
        return keep_above(s, cell, -divide(bound, -factor));
    return bound >= 0;
}

/* Ends that follow from other counters have FOLLOWED_BITS significant bits: rounded outwards. */
static inline Wide rounded_down(Wide bound)
{
    const unsigned __int128 size = bound < 0 ? -(unsigned __int128)bound : (unsigned __int128)bound;
    const Word high = (Word)(size >> 64), low = (Word)size;
    const int32_t bits = high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
    const int32_t shift = bits > FOLLOWED_BITS ? bits - FOLLOWED_BITS : 0;
    return bound & ~(((Wide)1 << shift) - 1);
}

static inline bool raise_low(State *s, int32_t cell, Wide bound) { return keep_above(s, cell, rounded_down(bound)); }
static inline bool lower_high(State *s, int32_t cell, Wide bound) { return keep_below(s, cell, -rounded_down(-bound)); }

/* factor * value <= bound, which follows from other counters */
static inline bool follow(State *s, int32_t cell, Wide factor, Wide bound)
{
    if (factor > 0)
        return lower_high(s, cell, divide(bound, factor));
    if (factor < 0)
        return raise_low(s, cell, -divide(bound, -factor));
    return bound >= 0;
}

/* ---- Equality of integers, by value, as spacedsl/engine/integers.py defines it ---- */

typedef enum { CONSTANT, INTEGER, COUNTER } Kind;

/* factor * value + offset */
typedef struct {
    Kind kind;
    int32_t cell;
    Wide factor, offset;
} Side;

typedef struct {
    Wide low, high;
} Ends;

static inline Ends ends_of(const State *s, Side side)
{
    if (side.kind == CONSTANT)
        return (Ends){side.offset, side.offset};
    const bool is_integer = side.kind == INTEGER;
    const Wide low = is_integer ? least(s, side.cell) : (Wide)s->v[side.cell];
    const Wide high = is_integer ? greatest(s, side.cell) : (Wide)s->v[side.cell + 1];
    const Wide a = add(multiply(side.factor, low), side.offset);
    const Wide b = add(multiply(side.factor, high), side.offset);
    return a <= b ? (Ends){a, b} : (Ends){b, a};
}

/* The place of a value in the universe of a cell, or -1. */
static inline int32_t find(const State *s, int32_t cell, Wide value)
{
    const int64_t *const values = universe_of(s, cell);
    int32_t low = 1, high = (int32_t)values[0];
    while (low <= high) {
        const int32_t middle = (low + high) / 2;
        if (values[middle] == value)
            return middle - 1;
        if (values[middle] < value)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

/* The mask of the target's values that equal one that the source still has. */
static inline void image(const State *s, Side source, Side target, Word *mask)
{
    const int64_t *const values = universe_of(s, target.cell);
    if (values == universe_of(s, source.cell) && source.factor == target.factor && source.offset == target.offset) {
        memcpy(mask, s->v + source.cell, MASK_WORDS * sizeof(Word));
        return;
    }
    memset(mask, 0, MASK_WORDS * sizeof(Word));
    for (int32_t bit = 0; bit < values[0]; bit++) {
        const Wide wanted = subtract(add(multiply(target.factor, values[1 + bit]), target.offset), source.offset);
        if (source.factor == 0 ? wanted != 0 : wanted % source.factor != 0)
            continue;
        const int32_t from = source.factor == 0 ? 0 : find(s, source.cell, wanted / source.factor);
        if (source.factor == 0 || (from >= 0 && has(s->v + source.cell, from)))
            mask[bit >> 6] |= (Word)1 << (bit & 63);
    }
}

static inline bool may_be_equal(const State *s, Side left, Side right)
{
    if (left.kind == INTEGER && right.kind == INTEGER) {
        Word mask[MASK_WORDS];
        image(s, left, right, mask);
        return meets(s, right.cell, mask);
    }
    const Ends a = ends_of(s, left), b = ends_of(s, right);
    return a.low <= b.high && b.low <= a.high;
}

static inline bool may_differ(const State *s, Side left, Side right)
{
    const Ends a = ends_of(s, left), b = ends_of(s, right);
    return !(a.low == a.high && a.low == b.low && b.low == b.high);
}

static inline bool keep_within(State *s, Side side, Side other)
{
    const Ends ends = ends_of(s, other);
    if (side.kind == CONSTANT)
        return true;
    const Wide most = subtract(ends.high, side.offset), fewest = subtract(side.offset, ends.low);
    if (side.kind == INTEGER)
        return cap_integer(s, side.cell, side.factor, most) && cap_integer(s, side.cell, -side.factor, fewest);
    if (other.kind == CONSTANT)
        return cap_counter(s, side.cell, side.factor, most) && cap_counter(s, side.cell, -side.factor, fewest);
    return follow(s, side.cell, side.factor, most) && follow(s, side.cell, -side.factor, fewest);
}

static inline bool make_equal(State *s, Side left, Side right)
{
    if (left.kind == INTEGER && right.kind == INTEGER) {
        Word mask[MASK_WORDS];
        image(s, left, right, mask);
        if (!keep(s, right.cell, mask))
            return false;
        image(s, right, left, mask);
        return keep(s, left.cell, mask);
    }
    return may_be_equal(s, left, right) && keep_within(s, left, right) && keep_within(s, right, left);
}

static inline bool remove_value(State *s, Side side, Wide value)
{
    const Wide rest = subtract(value, side.offset);
    if (side.kind == CONSTANT || side.factor == 0)
        return rest != 0;
    if (rest % side.factor != 0)
        return true;
    const Wide taken = rest / side.factor;
    if (side.kind == INTEGER) {
        Word mask[MASK_WORDS];
        const int32_t bit = find(s, side.cell, taken);
        if (bit < 0)
            return true;
        memset(mask, 0xff, sizeof mask);
        mask[bit >> 6] ^= (Word)1 << (bit & 63);
        return keep(s, side.cell, mask);
    }
    /* Of an interval only an end can go. */
    return (s->v[side.cell] != taken || keep_above(s, side.cell, taken + 1)) &&
           (s->v[side.cell + 1] != taken || keep_below(s, side.cell, taken - 1));
}

static inline bool make_different(State *s, Side left, Side right)
{
    const Ends a = ends_of(s, right);
    if (a.low == a.high && !remove_value(s, left, a.low))
        return false;
    const Ends b = ends_of(s, left);
    return b.low != b.high || remove_value(s, right, b.low);
}

/* ---- Presence ---- */

/* What follows for a membership from its reasons. `at`: its cell, how many reasons, each how many cells, then those. */
static inline bool update_membership(State *s, const int32_t *at)
{
    const int32_t cell = *at++;
    bool is_certain = false, is_impossible = true;
    for (int32_t reasons = *at++; reasons > 0; reasons--) {
        bool holds = true, fails = false;
        for (int32_t cells = *at++; cells > 0; cells--) {
            const Word word = s->v[*at++];
            holds &= word == PRESENT;
            fails |= word == ABSENT;
        }
        is_certain |= holds;
        is_impossible &= fails;
    }
    if (!is_certain && !is_impossible)
        return true;
    const Word mask = s->v[cell] & (is_certain ? PRESENT : ABSENT);
    return mask == s->v[cell] || narrow(s, cell, mask);
}

/* All memberships that a cell is a reason for: how many, then where each begins. */
static inline bool update_presence(State *s, int32_t cell)
{
    const int32_t *const reasons = s->of->reasons;
    const int32_t at = s->of->cells[cell].updates;
    for (int32_t i = 1; at && i <= reasons[at]; i++)
        if (!update_membership(s, reasons + reasons[at + i]))
            return false;
    return true;
}
