/* What a node's value asks of its operands: spacedsl/engine/quantities/inverse.py, in C.
 *
 * Stands after quantities.h. What is asked is collected by node, to be handed on in order from above. */

/* The operand has to lie between the ends, which are infinite where nothing is asked. */
static void ask_of(State *s, int32_t n, Wide low, Wide high)
{
    const Interval now = s->ends[n];
    const Interval need = {clamped(low), clamped(high)};
    if (need.low <= now.low && now.high <= need.high)
        return;
    Interval *const needs = s->needs + n;
    if (s->is_needed[n]) {
        needs->low = need.low > needs->low ? need.low : needs->low;
        needs->high = need.high < needs->high ? need.high : needs->high;
        return;
    }
    s->is_needed[n] = 1;
    *needs = need;
    int32_t at = s->need_count++;
    for (; at && s->need_heap[(at - 1) / 2] < n; at = (at - 1) / 2)
        s->need_heap[at] = s->need_heap[(at - 1) / 2];
    s->need_heap[at] = n;
}

/* The last one of the nodes of which something is asked. */
static int32_t next_needed(State *s)
{
    int32_t *const heap = s->need_heap;
    const int32_t found = heap[0], last = heap[--s->need_count];
    int32_t at = 0;
    for (int32_t child = 1; child < s->need_count; child = 2 * at + 1) {
        child += child + 1 < s->need_count && heap[child + 1] > heap[child];
        if (heap[child] < last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    s->is_needed[found] = 0;
    return found;
}

static void ask_of_sum(State *s, const Node *node, const int32_t *operands, Interval need)
{
    Wide lows = 0, highs = 0;
    int32_t infinite_lows = 0, infinite_highs = 0;
    for (int32_t i = 0; i < node->count; i++) {
        const Interval x = s->ends[operands[i]];
        const int64_t low = i < node->data ? x.low : -x.high, high = i < node->data ? x.high : -x.low;
        lows += low;
        highs += high;
        infinite_lows += is_infinite(low);
        infinite_highs += is_infinite(high);
    }
    for (int32_t i = 0; i < node->count; i++) {
        const Interval x = s->ends[operands[i]];
        const int64_t low = i < node->data ? x.low : -x.high, high = i < node->data ? x.high : -x.low;
        const bool is_least = need.low == -INFINITE || infinite_highs > is_infinite(high);
        const bool is_most = need.high == INFINITE || infinite_lows > is_infinite(low);
        const Wide least = is_least ? -INFINITE : need.low - (highs - high);
        const Wide most = is_most ? INFINITE : need.high - (lows - low);
        ask_of(s, operands[i], i < node->data ? least : -most, i < node->data ? most : -least);
    }
}

static void ask_of_product(State *s, const Node *node, const int32_t *operands, Interval need)
{
    for (int32_t i = 0; i < node->count; i++)
        if (s->ends[operands[i]].low < 0)
            return;
    for (int32_t i = 0; i < node->count; i++) {
        Wide least = 1, most = 1;
        for (int32_t other = 0; other < node->count; other++) {
            if (other != i) {
                least = clamped(least * s->ends[operands[other]].low);
                most = clamped(most * s->ends[operands[other]].high);
            }
        }
        ask_of(s, operands[i], need.low > 0 && most > 0 && most < INFINITE ? divide_up(need.low, most) : -INFINITE,
               least > 0 && need.high < INFINITE ? divide(need.high, least) : INFINITE);
    }
}

static void ask_of_extremum(State *s, const Node *node, const int32_t *operands, Interval need)
{
    const bool is_least = node->op == MINIMUM_NODE;
    int32_t count = 0, one = 0;
    for (int32_t i = 0; i < node->count; i++) {
        const Interval x = s->ends[operands[i]];
        if (is_least ? x.low <= need.high : x.high >= need.low) {
            count++;
            one = operands[i];
        }
        ask_of(s, operands[i], is_least ? need.low : -INFINITE, is_least ? INFINITE : need.high);
    }
    if (count == 1)
        ask_of(s, one, is_least ? -INFINITE : need.low, is_least ? need.high : INFINITE);
}

static void ask_of_division(State *s, const Node *node, const int32_t *operands, Interval need)
{
    const Interval a = s->ends[operands[0]], b = s->ends[operands[1]];
    const int32_t shift = node->op == CEIL_NODE;
    const int64_t least = shift && need.low > -INFINITE ? need.low - 1 : need.low;
    const int64_t most = shift && need.high < INFINITE ? need.high - 1 : need.high;
    Wide low = -INFINITE, high = INFINITE;
    if (least > -INFINITE) {
        const int64_t factor = least >= 0 ? b.low : b.high;
        low = factor < INFINITE ? (Wide)least * factor + shift : low;
    }
    if (most < INFINITE) {
        const int64_t factor = most + 1 > 0 ? b.high : b.low;
        high = factor < INFINITE ? ((Wide)most + 1) * factor - 1 + shift : high;
    }
    ask_of(s, operands[0], low, high);
    low = -INFINITE;
    high = INFINITE;
    if (a.low >= shift && most >= 0 && most < INFINITE && a.low < INFINITE)
        low = divide(a.low - shift, (Wide)most + 1) + 1;
    if (least > 0 && a.high < INFINITE)
        high = divide((Wide)a.high - shift, least);
    ask_of(s, operands[1], low, high);
}

static void ask_of_selection(State *s, const Node *node, const int32_t *operands, Interval need)
{
    int32_t count = 0, one = 0;
    for (int32_t i = 0; i < node->count; i += 2) {
        const Interval x = s->ends[operands[i + 1]];
        if (!s->ends[operands[i]].high)
            continue;
        if (x.low <= need.high && need.low <= x.high) {
            count++;
            one = i;
        } else {
            ask_of(s, operands[i], 0, 0);
        }
    }
    if (count == 1) {
        ask_of(s, operands[one], 1, 1);
        ask_of(s, operands[one + 1], need.low, need.high);
    }
}

static void ask_of_equal(State *s, int32_t n, Interval other, Interval need)
{
    const Interval x = s->ends[n];
    if (need.low)
        ask_of(s, n, other.low, other.high);
    else if (!need.high && other.low == other.high)
        ask_of(s, n, x.low + (x.low == other.low), x.high - (x.high == other.low));
}

static void ask_of_operands(State *s, const Node *node, Interval need)
{
    const int32_t *const operands = links_at(s, node->operands);
    switch (node->op) {
    case SUM_NODE:
        ask_of_sum(s, node, operands, need);
        return;
    case PRODUCT_NODE:
        ask_of_product(s, node, operands, need);
        return;
    case MINIMUM_NODE:
    case MAXIMUM_NODE:
        ask_of_extremum(s, node, operands, need);
        return;
    case FLOOR_NODE:
    case CEIL_NODE:
        ask_of_division(s, node, operands, need);
        return;
    case SELECT_NODE:
        ask_of_selection(s, node, operands, need);
        return;
    case NOT_NODE:
        ask_of(s, operands[0], 1 - need.high, 1 - need.low);
        return;
    case AT_MOST_NODE: {
        const Interval a = s->ends[operands[0]], b = s->ends[operands[1]];
        if (need.low) {
            ask_of(s, operands[0], -INFINITE, b.high);
            ask_of(s, operands[1], a.low, INFINITE);
        } else if (!need.high) {
            ask_of(s, operands[0], (Wide)b.low + 1, INFINITE);
            ask_of(s, operands[1], -INFINITE, (Wide)a.high - 1);
        }
        return;
    }
    case EQUAL_NODE: {
        const Interval a = s->ends[operands[0]], b = s->ends[operands[1]];
        ask_of_equal(s, operands[0], b, need);
        ask_of_equal(s, operands[1], a, need);
        return;
    }
    }
}
