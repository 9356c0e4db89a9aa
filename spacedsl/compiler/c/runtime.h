/* What generated propagators stand on: the instance they run in, the state they change, operations on domains.
 *
 * Whoever compiles it defines OBJECT_WORDS (words of a set of objects), ROW_WORDS (those of them that hold the
 * objects of bit rows, which have the least numbers) and MASK_WORDS (words of an integer's mask
 * that are in use); FOLLOWED_BITS and DENSE_WORDS stand before this text. Every operation returns false for a contradiction. All
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
#define NO_MEMORY -1
#define NEAR_WATCHES 4 /* of a node: those that are looked through for one to use again */
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
    int32_t is_decision;
    int32_t tally;    /* of a counter: 1 + the number of its tally, 0: none */
} Cell;

/* Of a counter of many contributions: their places, the first one being that of the base. */
typedef struct {
    int32_t first, count;
    int32_t is_product;
} Tally;

typedef struct {
    Word low, high;
} Contribution;

typedef struct {
    int32_t place;
    Contribution was;
} Change;

/* Of all contributions of a tally; see totals.h. */
typedef struct {
    Wide low, high;
    Word widest;  /* what one contribution leaves open at most */
    int32_t bits; /* of a product: of all greatest factors, each one's whole ones */
    int32_t is_known;
} Totals;

/* Of the graph of quantities: what spacedsl/engine/quantities/nodes.py says, lists being in `links`. */
typedef struct {
    int32_t op, cell;
    int32_t operands, count; /* where they begin, and how many */
    int32_t data;            /* where it begins in `node_data`; of a sum, how many of the operands are added */
    int32_t users, calls;    /* each list: how many, then those */
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
    int32_t tally_count;
    int32_t contribution_count;
    const Tally *tallies;
    const int32_t *tallied; /* by tally: the cell of its counter */
} Instance;

typedef struct {
    int64_t low, high;
} Interval;

/* That a limit is to be walked down again when the node changes, if its last walk is still the one of this number. */
typedef struct {
    int32_t limit;
    uint32_t walk;
    int32_t next; /* of the same node, 0: none */
} Watch;

/* One vector at work, and what waits to be propagated. */
typedef struct {
    const Instance *of;
    Word *v;    /* the vector, and behind it what is copied with it: bit rows, totals */
    Word *rows;
    Totals *totals; /* by tally */
    Word *saved;    /* a copy of it all */
    bool keeps_totals;           /* else all counters are computed from all contributions */
    Contribution *contributions; /* by place */
    Change *changes;             /* of contributions, to be undone when a copy is restored */
    int32_t change_count, change_room;
    Word contributions_read; /* of tallies: how many, ever */
    Word *before;     /* by cell that waits: its value when it was queued; of a counter, whether it was limited */
    uint8_t *waiting; /* by cell: whether it is in the queue */
    uint8_t *dirty;   /* by counter's cell: whether it is to be computed */
    int32_t *queue;
    int32_t first, queued, ring;
    int32_t *later;
    int32_t latest;
    int32_t fault; /* 1 + the number of the check that failed, 0: none, or NO_MEMORY */
    Word fault_value[2];
    /* Of the graph, if there is one. */
    Interval *ends;      /* by node */
    Word *pending;       /* nodes to compute */
    Word *pending_words; /* the words of `pending` that are not 0 */
    bool is_dirty, is_collecting, is_at_rest;
    uint8_t *asked; /* by call: whether it waits */
    int32_t *asks;
    int32_t ask_count;
    uint8_t *is_required; /* by node: whether it is known to have to hold */
    int32_t *required;
    int32_t required_count;
    uint8_t *is_due; /* by node: whether it is to be walked down */
    int32_t *due;
    int32_t due_count;
    uint32_t *walks;  /* by node: how many there have been */
    int32_t *watched; /* by node: the first of its watches, 0: none */
    Watch *watches;
    int32_t watch_room, spare_watch;
    uint8_t *is_needed; /* by node: whether something is asked of it in this walk */
    Interval *needs;    /* what */
    int32_t *need_heap;
    int32_t need_count;
} State;

static inline bool out_of_memory(State *s)
{
    s->fault = NO_MEMORY;
    return false;
}

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

/* The place of a pair: `pairs` has by first object where its row begins, 0: it has none. A row: how many, where the
 * first one is, then the second objects in order. Place 0 is that of all others. */
static inline int64_t place_in_row(const int32_t *pairs, int32_t a, int32_t b)
{
    const int32_t *const row = pairs + pairs[a];
    int32_t from = 0, to = pairs[a] ? row[0] : 0;
    while (from < to) {
        const int32_t middle = (from + to) / 2;
        if (row[2 + middle] < b)
            from = middle + 1;
        else
            to = middle;
    }
    return pairs[a] && from < row[0] && row[2 + from] == b ? row[1] + from : 0;
}

#if OBJECT_WORDS > DENSE_WORDS
#define PAIR(pairs, a, b) place_in_row(pairs, a, b)
#else
#define PAIR(pairs, a, b) ((a) * OBJECTS + (b))
#endif

/* The place of a key of more than two objects: `ranks` holds a size for each position, then ranks by object. */
static inline int64_t place(const int32_t *ranks, int32_t arity, const int32_t *key)
{
    int64_t at = 0;
    for (int32_t i = 0; i < arity; i++)
        at = at * ranks[i] + ranks[arity + i * OBJECTS + key[i]];
    return at;
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
