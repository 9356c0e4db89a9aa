/* Exact integers, and the domains that hold integers: those of choices, and the intervals of counters.
 *
 * Stands after runtime.h. Of the same meaning as spacedsl/engine/domains.py and integers.py. */

/* ---- Exact integers ---- */

static inline bool is_short(Wide a) { return a == (int64_t)a; }

static inline Wide add(Wide a, Wide b)
{
    Wide sum;
    if (UNLIKELY(__builtin_add_overflow(a, b, &sum) || sum < -WIDEST))
        return a > 0 ? WIDEST : -WIDEST;
    return sum;
}

static inline Wide subtract(Wide a, Wide b) { return add(a, -b); }

static inline Wide multiply(Wide a, Wide b)
{
    Wide product;
    if (is_short(a) && is_short(b))
        return (Wide)(int64_t)a * (int64_t)b;
    if (UNLIKELY(__builtin_mul_overflow(a, b, &product) || product < -WIDEST))
        return (a > 0) == (b > 0) ? WIDEST : -WIDEST;
    return product;
}

/* Rounding down; the divisor is positive. What has saturated may be any larger number: so may its parts. */
static inline Wide divide(Wide a, Wide b)
{
    if (a >= 0 && is_short(a) && is_short(b))
        return (Word)a / (Word)b;
    if (UNLIKELY(a == WIDEST || a == -WIDEST))
        return a;
    return a >= 0 ? a / b : -(-a / b) - (-a % b != 0);
}

static inline Wide divide_up(Wide a, Wide b) { return -divide(-a, b); }
static inline Wide least_of(Wide a, Wide b) { return a < b ? a : b; }
static inline Wide greatest_of(Wide a, Wide b) { return a > b ? a : b; }

/* What is left of a product without a factor. At least 1: a factor that has grown since may exceed the product. */
static inline Wide without(Wide total, Wide part) { return greatest_of(divide(total, part), 1); }

static inline bool check(State *s, int32_t number, Wide value, Wide least)
{
    if (value >= least)
        return true;
    s->fault = number + 1;
    s->fault_value[0] = (Word)value;
    s->fault_value[1] = (Word)(value >> 64);
    return false;
}

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

static inline bool drop_below(State *s, int32_t cell, Wide bound)
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

static inline bool drop_above(State *s, int32_t cell, Wide bound)
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
        return drop_above(s, cell, divide(bound, factor));
    if (factor < 0)
        return drop_below(s, cell, -divide(bound, -factor));
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
static inline bool lower_high(State *s, int32_t cell, Wide bound)
{
    /* Rounding has no room where a bound is as large as any. */
    return bound >= s->v[cell + 1] || keep_below(s, cell, -rounded_down(-bound));
}

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
