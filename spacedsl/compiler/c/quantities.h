/* Quantities: intervals of the nodes of a graph over the words of a vector.
 *
 * What nodes mean is said in spacedsl/engine/quantities/nodes.py. They are in order of need: one sweep over those that
 * a change reaches brings all up to date. */

#define INFINITE INT64_MAX

enum {
    CONSTANT_NODE, POSITION_NODE, INTEGER_NODE, COUNTER_NODE, IN_MASK_NODE, SUM_NODE, PRODUCT_NODE, MINIMUM_NODE,
    MAXIMUM_NODE, FLOOR_NODE, CEIL_NODE, SELECT_NODE, NOT_NODE, AT_MOST_NODE, EQUAL_NODE
};

typedef struct {
    int64_t low, high;
} Interval;

static inline int64_t clamped(Wide value)
{
    return value > INFINITE ? INFINITE : value < -INFINITE ? -INFINITE : (int64_t)value;
}

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

static inline int64_t added(Wide sum, bool has_infinite, bool has_negative)
{
    return has_infinite ? INFINITE : has_negative ? -INFINITE : clamped(sum);
}

static Interval sum_interval(const State *s, const Node *node, const int32_t *operands)
{
    const int64_t *const signs = s->of->node_data + node->data;
    Wide low = 0, high = 0;
    bool infinite_low = false, negative_low = false, infinite_high = false, negative_high = false;
    for (int32_t i = 0; i < node->count; i++) {
        const int64_t a = s->low[operands[i]], b = s->high[operands[i]];
        const int64_t least = signs[i] > 0 ? a : -b, most = signs[i] > 0 ? b : -a;
        infinite_low |= least == INFINITE;
        negative_low |= least == -INFINITE;
        infinite_high |= most == INFINITE;
        negative_high |= most == -INFINITE;
        low += least;
        high += most;
    }
    return (Interval){added(low, infinite_low, negative_low), added(high, infinite_high, negative_high)};
}

static Interval product_interval(const State *s, const Node *node, const int32_t *operands)
{
    int64_t low = 1, high = 1;
    for (int32_t i = 0; i < node->count; i++) {
        const Wide a = s->low[operands[i]], b = s->high[operands[i]];
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

static int64_t divided(int64_t dividend, int64_t divisor, bool up)
{
    if (dividend == INFINITE || dividend == -INFINITE)
        return dividend;
    Wide a = dividend, b = divisor;
    if (b < 0) {
        a = -a;
        b = -b;
    }
    return clamped(up ? divide_up(a, b) : divide(a, b));
}

static Interval division_interval(const State *s, const Node *node, const int32_t *operands)
{
    const int64_t a[2] = {s->low[operands[0]], s->high[operands[0]]};
    const int64_t b[2] = {s->low[operands[1]], s->high[operands[1]]};
    Interval found = {INFINITE, -INFINITE};
    for (int32_t i = 0; i < 4; i++) {
        const int64_t corner = divided(a[i >> 1], b[i & 1], node->op == CEIL_NODE);
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
        found = (Interval){s->low[operands[0]], s->high[operands[0]]};
        for (int32_t i = 1; i < node->count; i++) {
            const int64_t a = s->low[operands[i]], b = s->high[operands[i]];
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
            if (s->high[operands[i]]) {
                const int64_t a = s->low[operands[i + 1]], b = s->high[operands[i + 1]];
                found.low = a < found.low ? a : found.low;
                found.high = b > found.high ? b : found.high;
            }
        }
        return found;
    case NOT_NODE:
        return (Interval){1 - s->high[operands[0]], 1 - s->low[operands[0]]};
    case AT_MOST_NODE:
        return (Interval){s->high[operands[0]] <= s->low[operands[1]], s->low[operands[0]] <= s->high[operands[1]]};
    case EQUAL_NODE: {
        const int64_t a = s->low[operands[0]], b = s->high[operands[0]];
        const int64_t c = s->low[operands[1]], d = s->high[operands[1]];
        return (Interval){a == b && b == c && c == d, a <= d && c <= b};
    }
    default:
        return leaf_interval(s, node, s->v + node->cell);
    }
}

/* ---- How far one choice can move a node ---- */

/* While one choice is bounded: for each node in `low`, at least the greatest low end, and in `high`, at most the least
 * high end, that it has when the choice has any one of its values. See spacedsl/engine/quantities/reach.py. */
static Interval reached_product(const State *s, int32_t n, const int32_t *operands)
{
    const Node *const node = s->of->nodes + n;
    Wide most = 1, fewest = 1;
    for (int32_t i = 0; i < node->count; i++) {
        const int32_t at = s->undone_at[operands[i]];
        if ((at ? s->undo[at - 1].low : s->low[operands[i]]) < 0)
            return (Interval){s->high[n], s->low[n]};
        most = clamped(most * s->low[operands[i]]);
        fewest = clamped(fewest * s->high[operands[i]]);
    }
    return (Interval){(int64_t)most, (int64_t)fewest};
}

static Interval reached_division(const State *s, int32_t n, const int32_t *operands)
{
    const int64_t most = s->low[operands[0]], fewest = s->high[operands[0]];
    const int64_t most_by = s->low[operands[1]], fewest_by = s->high[operands[1]];
    const bool up = s->of->nodes[n].op == CEIL_NODE;
    if (most_by < 1 || fewest_by < 1)
        return (Interval){s->high[n], s->low[n]};
    return (Interval){divided(most, most >= 0 ? fewest_by : most_by, up),
                      divided(fewest, fewest >= 0 ? most_by : fewest_by, up)};
}

static Interval reached_selection(const State *s, int32_t n, const int32_t *operands)
{
    const Node *const node = s->of->nodes + n;
    Interval always = {INFINITE, -INFINITE}, some = {-INFINITE, INFINITE};
    bool is_always = false, is_some = false;
    for (int32_t i = 0; i < node->count; i += 2) {
        const int64_t most = s->low[operands[i + 1]], fewest = s->high[operands[i + 1]];
        if (s->high[operands[i]]) {
            is_always = true;
            always.low = most < always.low ? most : always.low;
            always.high = fewest > always.high ? fewest : always.high;
        }
        if (s->undone_at[operands[i]]) {
            is_some = true;
            some.low = most > some.low ? most : some.low;
            some.high = fewest < some.high ? fewest : some.high;
        }
    }
    return is_always ? always : is_some ? some : (Interval){s->high[n], s->low[n]};
}

static Interval reached_interval(const State *s, int32_t n)
{
    const Node *const node = s->of->nodes + n;
    const int32_t *const operands = links_at(s, node->operands);
    switch (node->op) {
    case PRODUCT_NODE:
        return reached_product(s, n, operands);
    case FLOOR_NODE:
    case CEIL_NODE:
        return reached_division(s, n, operands);
    case SELECT_NODE:
        return reached_selection(s, n, operands);
    case EQUAL_NODE: {
        const int64_t most_a = s->low[operands[0]], fewest_a = s->high[operands[0]];
        const int64_t most_b = s->low[operands[1]], fewest_b = s->high[operands[1]];
        return (Interval){fewest_a <= most_b && fewest_b <= most_a, most_a <= fewest_b && most_b <= fewest_a};
    }
    default:
        /* Of the others, the function of both ends is the same. */
        return node_interval(s, node);
    }
}

/* ---- Changes ---- */

static inline void mark(Word *set, int32_t n) { set[n >> 6] |= (Word)1 << (n & 63); }

/* The nodes that have been written since they were last restored, in a trial. */
typedef struct {
    int32_t count;
    const uint8_t *within; /* only these are computed */
    bool reaches;          /* whether it bounds all values of a choice at once */
} Trial;

static void write_node(State *s, int32_t n, Interval now, Trial *trial)
{
    if (s->low[n] == now.low && s->high[n] == now.high)
        return;
    if (trial) {
        s->undo[trial->count].node = n;
        s->undo[trial->count].low = s->low[n];
        s->undo[trial->count++].high = s->high[n];
        s->undone_at[n] = trial->count;
    } else if (!s->differs[n]) {
        s->differs[n] = 1;
        s->differing[s->differing_count++] = n;
    }
    s->low[n] = now.low;
    s->high[n] = now.high;
    const int32_t *const users = links_at(s, s->of->nodes[n].users);
    for (int32_t i = 1; i <= users[0]; i++)
        if (!trial || trial->within[users[i]])
            mark(s->pending, users[i]);
}

static void sweep(State *s, Trial *trial)
{
    const int32_t words = (s->of->node_count + 63) / 64;
    for (int32_t word = 0; word < words; word++) {
        while (s->pending[word]) {
            const int32_t n = word * 64 + __builtin_ctzll(s->pending[word]);
            s->pending[word] &= s->pending[word] - 1;
            const bool reaches = trial && trial->reaches;
            write_node(s, n, reaches ? reached_interval(s, n) : node_interval(s, s->of->nodes + n), trial);
        }
    }
}

static inline void refresh(State *s)
{
    if (s->is_dirty) {
        s->is_dirty = false;
        sweep(s, NULL);
    }
}

static void touch(State *s, int32_t cell)
{
    const int32_t *const leaves = links_at(s, s->of->cells[cell].leaves);
    for (int32_t i = 1; i <= leaves[0]; i++)
        mark(s->pending, leaves[i]);
    s->is_dirty |= leaves[0] > 0;
}

static void forget_differing(State *s)
{
    while (s->differing_count)
        s->differs[s->differing[--s->differing_count]] = 0;
    s->any_differs = false;
}

static void compute_all_nodes(State *s)
{
    for (int32_t n = 0; n < s->of->node_count; n++) {
        const Interval now = node_interval(s, s->of->nodes + n);
        s->low[n] = now.low;
        s->high[n] = now.high;
    }
    memset(s->pending, 0, (size_t)(s->of->node_count + 63) / 64 * sizeof(Word));
    s->is_dirty = s->is_stale = false;
}
