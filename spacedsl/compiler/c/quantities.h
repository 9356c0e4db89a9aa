/* Quantities: intervals of the nodes of a graph over the words of a vector.
 *
 * What nodes mean is said in spacedsl/engine/quantities/nodes.py. They are in order of need: one sweep over those that
 * a change reaches brings all up to date. */

#define INFINITE INT64_MAX

enum {
    CONSTANT_NODE, POSITION_NODE, INTEGER_NODE, COUNTER_NODE, IN_MASK_NODE, SUM_NODE, PRODUCT_NODE, MINIMUM_NODE,
    MAXIMUM_NODE, FLOOR_NODE, CEIL_NODE, SELECT_NODE, NOT_NODE, AT_MOST_NODE, EQUAL_NODE
};

static inline int64_t clamped(Wide value)
{
    return value > INFINITE ? INFINITE : value < -INFINITE ? -INFINITE : (int64_t)value;
}

static inline bool is_infinite(int64_t value) { return value == INFINITE || value == -INFINITE; }
static inline bool is_leaf(const Node *node) { return node->op >= POSITION_NODE && node->op <= IN_MASK_NODE; }
static inline const int32_t *links_at(const State *s, int32_t at) { return s->of->links + at; }

/* ---- Intervals of nodes ---- */

/* Of a leaf, for the words of its domain. */
static Interval leaf_interval(const State *s, const Node *node, const Word *words)
{
    const Word word = words[0];
    const int64_t *const data = s->of->node_data + node->data;
    switch (node->op) {
    case POSITION_NODE:
        return (Interval){__builtin_ctzll(word), 63 - __builtin_clzll(word)};
    case INTEGER_NODE: {
        const int64_t *const values = universe_of(s, node->cell) + 1;
        return (Interval){clamped(values[lowest(words)]), clamped(values[highest(words)])};
    }
    case COUNTER_NODE:
        return (Interval){clamped((Wide)word), clamped((Wide)words[1])};
    default:
        return (Interval){!(word & ~(Word)data[0]), (word & (Word)data[0]) != 0};
    }
}

/* So small that sums of many and products of two stay in a word. */
static inline bool is_small(Interval x) { return x.low > -((int64_t)1 << 31) && x.high < (int64_t)1 << 31; }

static inline int64_t added(Wide sum, bool has_infinite, bool has_negative)
{
    return has_infinite ? INFINITE : has_negative ? -INFINITE : clamped(sum);
}

/* Of the first operands, as many as `data` says, less the others. */
static Interval large_sum_interval(const State *s, const Node *node, const int32_t *operands)
{
    Wide low = 0, high = 0;
    bool infinite_low = false, negative_low = false, infinite_high = false, negative_high = false;
    for (int32_t i = 0; i < node->count; i++) {
        const Interval x = s->ends[operands[i]];
        const int64_t least = i < node->data ? x.low : -x.high, most = i < node->data ? x.high : -x.low;
        infinite_low |= least == INFINITE;
        negative_low |= least == -INFINITE;
        infinite_high |= most == INFINITE;
        negative_high |= most == -INFINITE;
        low += least;
        high += most;
    }
    return (Interval){added(low, infinite_low, negative_low), added(high, infinite_high, negative_high)};
}

static inline Interval sum_interval(const State *s, const Node *node, const int32_t *operands)
{
    Interval found = {0, 0};
    bool are_small = true;
    for (int32_t i = 0; i < node->count; i++) {
        const Interval x = s->ends[operands[i]];
        are_small = are_small && is_small(x);
        if (!are_small)
            return large_sum_interval(s, node, operands);
        found.low += i < node->data ? x.low : -x.high;
        found.high += i < node->data ? x.high : -x.low;
    }
    return found;
}

static Interval large_product_interval(const State *s, const Node *node, const int32_t *operands)
{
    int64_t low = 1, high = 1;
    for (int32_t i = 0; i < node->count; i++) {
        const Wide a = s->ends[operands[i]].low, b = s->ends[operands[i]].high;
        const Wide corners[4] = {low * a, low * b, high * a, high * b};
        Wide least = corners[0], most = corners[0];
        for (int32_t c = 1; c < 4; c++) {
            least = least_of(least, corners[c]);
            most = greatest_of(most, corners[c]);
        }
        low = clamped(least);
        high = clamped(most);
    }
    return (Interval){low, high};
}

static inline Interval product_interval(const State *s, const Node *node, const int32_t *operands)
{
    Interval found = {1, 1};
    for (int32_t i = 0; i < node->count; i++) {
        const Interval x = s->ends[operands[i]];
        if (!is_small(found) || !is_small(x) || x.low < 0)
            return large_product_interval(s, node, operands);
        found.low *= x.low;
        found.high *= x.high;
    }
    return found;
}

static int64_t divided(int64_t dividend, int64_t divisor, bool up)
{
    if (is_infinite(dividend))
        return dividend;
    /* At the root a divisor is 1 at least; what is there before anything is propagated may be wider. */
    const Wide a = dividend, b = divisor < 1 ? 1 : divisor;
    return clamped(up ? divide_up(a, b) : divide(a, b));
}

static inline Interval division_interval(const State *s, const Node *node, const int32_t *operands)
{
    const Interval a = s->ends[operands[0]], b = s->ends[operands[1]];
    const bool up = node->op == CEIL_NODE;
    if (a.low >= 0 && b.low >= 1 && is_small(a) && is_small(b)) {
        const uint32_t low = (uint32_t)a.low, high = (uint32_t)a.high, least = (uint32_t)b.low, most = (uint32_t)b.high;
        return (Interval){(low + (up ? most - 1 : 0)) / most, (high + (up ? least - 1 : 0)) / least};
    }
    Interval found = {INFINITE, -INFINITE};
    for (int32_t i = 0; i < 4; i++) {
        const int64_t corner = divided(i >> 1 ? a.high : a.low, i & 1 ? b.high : b.low, up);
        found.low = corner < found.low ? corner : found.low;
        found.high = corner > found.high ? corner : found.high;
    }
    return found;
}

static Interval node_interval(const State *s, const Node *node)
{
    const int32_t *const operands = links_at(s, node->operands);
    Interval found = {INFINITE, -INFINITE};
    switch (node->op) {
    case CONSTANT_NODE:
        return (Interval){s->of->node_data[node->data], s->of->node_data[node->data]};
    case SUM_NODE:
        return sum_interval(s, node, operands);
    case PRODUCT_NODE:
        return product_interval(s, node, operands);
    case MINIMUM_NODE:
    case MAXIMUM_NODE: {
        const bool is_least = node->op == MINIMUM_NODE;
        found = (Interval){s->ends[operands[0]].low, s->ends[operands[0]].high};
        for (int32_t i = 1; i < node->count; i++) {
            const int64_t a = s->ends[operands[i]].low, b = s->ends[operands[i]].high;
            found.low = (a < found.low) == is_least ? a : found.low;
            found.high = (b < found.high) == is_least ? b : found.high;
        }
        return found;
    }
    case FLOOR_NODE:
    case CEIL_NODE:
        return division_interval(s, node, operands);
    case SELECT_NODE:
        for (int32_t i = 0; i < node->count; i += 2) {
            if (s->ends[operands[i]].high) {
                const int64_t a = s->ends[operands[i + 1]].low, b = s->ends[operands[i + 1]].high;
                found.low = a < found.low ? a : found.low;
                found.high = b > found.high ? b : found.high;
            }
        }
        return found;
    case NOT_NODE:
        return (Interval){1 - s->ends[operands[0]].high, 1 - s->ends[operands[0]].low};
    case AT_MOST_NODE:
        return (Interval){s->ends[operands[0]].high <= s->ends[operands[1]].low, s->ends[operands[0]].low <= s->ends[operands[1]].high};
    case EQUAL_NODE: {
        const int64_t a = s->ends[operands[0]].low, b = s->ends[operands[0]].high;
        const int64_t c = s->ends[operands[1]].low, d = s->ends[operands[1]].high;
        return (Interval){a == b && b == c && c == d, a <= d && c <= b};
    }
    default:
        return leaf_interval(s, node, s->v + node->cell);
    }
}

/* ---- Changes ---- */

static void mark(State *s, int32_t n)
{
    s->pending[n >> 6] |= (Word)1 << (n & 63);
    s->pending_words[n >> 12] |= (Word)1 << (n >> 6 & 63);
}

static void call_watchers(State *s, int32_t n);
static void ask_later(State *s, int32_t calls);

static inline void write_node(State *s, int32_t n, Interval now)
{
    const Node *const node = s->of->nodes + n;
    if (s->ends[n].low == now.low && s->ends[n].high == now.high)
        return;
    s->ends[n] = now;
    const int32_t *const users = links_at(s, node->users);
    for (int32_t i = 1; i <= users[0]; i++)
        mark(s, users[i]);
    if (s->watched[n])
        call_watchers(s, n);
    if (!now.high && links_at(s, node->calls)[0])
        ask_later(s, node->calls);
}

/* Brings all intervals up to date. */
static void refresh(State *s)
{
    if (!s->is_dirty)
        return;
    s->is_dirty = false;
    for (int32_t block = 0; block <= s->of->node_count >> 12; block++) {
        while (s->pending_words[block]) {
            const int32_t bit = __builtin_ctzll(s->pending_words[block]), word = block * 64 + bit;
            while (s->pending[word]) {
                const int32_t n = word * 64 + __builtin_ctzll(s->pending[word]);
                s->pending[word] &= s->pending[word] - 1;
                write_node(s, n, node_interval(s, s->of->nodes + n));
            }
            s->pending_words[block] &= ~((Word)1 << bit);
        }
    }
}

/* A word of the vector has changed. */
static inline void touch(State *s, int32_t cell)
{
    const int32_t *const leaves = links_at(s, s->of->cells[cell].leaves);
    for (int32_t i = 1; i <= leaves[0]; i++)
        mark(s, leaves[i]);
    s->is_dirty |= leaves[0] > 0;
}

static void compute_all_nodes(State *s)
{
    for (int32_t n = 0; n < s->of->node_count; n++)
        s->ends[n] = node_interval(s, s->of->nodes + n);
}
