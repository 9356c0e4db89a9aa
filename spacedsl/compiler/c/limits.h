/* Limits on quantities: comparisons that must hold, and the values that cannot meet them.
 *
 * Stands after quantities.h; what follows from limits is said in spacedsl/engine/quantities/limits.py. */

/* Runs the propagator of a call, which generated code below defines. */
static bool ask(State *s, int32_t call);
static bool narrow_domain(State *s, int32_t cell, const Word *mask);

static void ask_later(State *s, int32_t calls)
{
    const int32_t *const list = links_at(s, calls);
    for (int32_t i = 1; i <= list[0]; i++) {
        if (!s->asked[list[i]]) {
            s->asked[list[i]] = 1;
            s->asks[s->ask_count++] = list[i];
        }
    }
}

/* A domain has changed. */
static inline void notice(State *s, int32_t cell)
{
    if (!s->of->node_count)
        return;
    touch(s, cell);
    ask_later(s, s->of->cells[cell].asks);
}

/* Whether a comparison may hold; before there is a graph, any may. */
static inline bool possible(State *s, int32_t n)
{
    if (n < 0 || !s->of->node_count)
        return true;
    refresh(s);
    return s->high[n] != 0;
}

/* The comparison must hold. */
static bool require(State *s, int32_t n)
{
    if (n < 0 || !s->of->node_count)
        return true;
    refresh(s);
    if (!s->high[n])
        return false;
    if (s->low[n])
        return true;
    if (!s->is_collecting)
        ask_later(s, s->of->nodes[n].calls);
    else if (!s->is_required[n]) {
        s->is_required[n] = 1;
        s->required[s->required_count++] = n;
    }
    return true;
}

static void forget_required(State *s)
{
    while (s->required_count)
        s->is_required[s->required[--s->required_count]] = 0;
}

/* Adds to `seen` what the nodes of the stack depend on as far as it is open. */
static void add_below(State *s, int32_t *stack, int32_t height, uint8_t *seen, const uint8_t *within)
{
    while (height) {
        const Node *const node = s->of->nodes + stack[--height];
        const int32_t *const operands = links_at(s, node->operands);
        for (int32_t i = 0; i < node->count; i++) {
            const int32_t n = operands[i];
            if (node->op == SELECT_NODE && !s->high[operands[i & ~1]])
                continue;
            if (s->low[n] != s->high[n] && !seen[n] && (!within || within[n])) {
                seen[n] = 1;
                stack[height++] = n;
            }
        }
    }
}

static inline int32_t push_new(int32_t *stack, int32_t height, uint8_t *seen, int32_t n)
{
    if (!seen[n]) {
        seen[n] = 1;
        stack[height++] = n;
    }
    return height;
}

/* Marks in `live` all that required limits depend on, in `suspects` those leaves of which a value might fail now. */
static void find_suspects(State *s, uint8_t *live, uint8_t *suspects)
{
    const size_t count = (size_t)s->of->node_count;
    int32_t height = 0;
    memset(live, 0, count);
    for (int32_t i = 0; i < s->required_count; i++)
        height = push_new(s->stack, height, live, s->required[i]);
    add_below(s, s->stack, height, live, NULL);
    if (s->any_differs) {
        memcpy(suspects, live, count);
        return;
    }
    memset(suspects, 0, count);
    height = 0;
    for (int32_t i = 0; i < s->required_count; i++)
        if (!s->of->nodes[s->required[i]].is_standing)
            height = push_new(s->stack, height, suspects, s->required[i]);
    for (int32_t i = 0; i < s->differing_count; i++) {
        const int32_t n = s->differing[i];
        const int32_t *const users = links_at(s, s->of->nodes[n].users);
        if (live[n])
            height = push_new(s->stack, height, suspects, n);
        for (int32_t u = 1; u <= users[0]; u++)
            if (live[users[u]])
                height = push_new(s->stack, height, suspects, users[u]);
    }
    add_below(s, s->stack, height, suspects, live);
}

/* Computes what follows from the leaves that a trial has written; whether a required limit is false then. */
static bool ends_false(State *s, Trial *trial)
{
    bool is_false = false;
    sweep(s, trial);
    for (int32_t i = 0; i < s->required_count && !is_false; i++)
        is_false = !s->high[s->required[i]];
    while (trial->count) {
        const Undo *const undo = s->undo + --trial->count;
        s->low[undo->node] = undo->low;
        s->high[undo->node] = undo->high;
        s->undone_at[undo->node] = 0;
    }
    return is_false;
}

/* Whether a required limit is false if the domain at the cell is `mask`. */
static bool fails(State *s, int32_t cell, const Word *mask, const uint8_t *live)
{
    Trial trial = {0, live, false};
    const int32_t *const leaves = links_at(s, s->of->cells[cell].leaves);
    for (int32_t i = 1; i <= leaves[0]; i++)
        write_node(s, leaves[i], leaf_interval(s, s->of->nodes + leaves[i], mask), &trial);
    return ends_false(s, &trial);
}

/* Whether some value at the cell could make a required limit false, as far as one pass can tell. */
static bool may_fail(State *s, int32_t cell, const uint8_t *live)
{
    Trial trial = {0, live, true};
    const int32_t *const leaves = links_at(s, s->of->cells[cell].leaves);
    for (int32_t i = 1; i <= leaves[0]; i++)
        write_node(s, leaves[i], (Interval){s->high[leaves[i]], s->low[leaves[i]]}, &trial);
    return ends_false(s, &trial);
}

/* Removes the values at the cell that no required limit can bear. */
static bool shave_domain(State *s, int32_t cell, const uint8_t *live)
{
    const int32_t words = s->of->cells[cell].universe >= 0 ? MASK_WORDS : 1;
    Word kept[INTEGER_WORDS] = {0}, value[INTEGER_WORDS] = {0};
    bool is_narrower = false;
    if (!may_fail(s, cell, live))
        return true;
    for (int32_t i = 0; i < words; i++) {
        for (Word rest = s->v[cell + i]; rest; rest &= rest - 1) {
            value[i] = rest & -rest;
            if (fails(s, cell, value, live))
                is_narrower = true;
            else
                kept[i] |= value[i];
        }
        value[i] = 0;
    }
    return !is_narrower || narrow_domain(s, cell, kept);
}

static bool is_undecided(const State *s, int32_t cell)
{
    const int32_t words = s->of->cells[cell].universe >= 0 ? MASK_WORDS : 1;
    int32_t values = 0;
    for (int32_t i = 0; i < words; i++)
        values += __builtin_popcountll(s->v[cell + i]);
    return values > 1;
}

static bool shave(State *s)
{
    uint8_t *const live = s->live, *const suspects = s->live + s->of->node_count;
    refresh(s);
    find_suspects(s, live, suspects);
    int32_t count = 0;
    for (int32_t n = 0; n < s->of->node_count; n++) {
        const Node *const node = s->of->nodes + n;
        if (!suspects[n] || !is_leaf(node) || node->op == COUNTER_NODE || !s->of->cells[node->cell].is_decision)
            continue;
        if (!s->is_tried[node->cell] && is_undecided(s, node->cell)) {
            s->is_tried[node->cell] = 1;
            s->tried[count++] = node->cell;
        }
    }
    bool is_consistent = true;
    for (int32_t i = 0; i < count; i++) {
        s->is_tried[s->tried[i]] = 0;
        is_consistent = is_consistent && shave_domain(s, s->tried[i], live);
    }
    return is_consistent;
}

/* Asks all that are waiting which limits must hold, and removes the values that cannot meet them. */
static bool run_limits(State *s)
{
    bool is_consistent = true;
    s->is_collecting = true;
    while (s->ask_count && is_consistent) {
        const int32_t call = s->asks[--s->ask_count];
        s->asked[call] = 0;
        is_consistent = ask(s, call);
    }
    s->is_collecting = false;
    if (is_consistent && s->queued) {
        /* What has changed meanwhile comes first: trying values is dear. */
        for (int32_t i = 0; i < s->required_count; i++)
            ask_later(s, s->of->nodes[s->required[i]].calls);
    } else if (is_consistent && s->required_count) {
        is_consistent = shave(s);
    }
    forget_required(s);
    return is_consistent;
}
