/* Limits on quantities: comparisons that must hold, and the values that cannot meet them.
 *
 * Stands after inverse.h; what follows from limits is said in spacedsl/engine/quantities/limits.py. A limit is walked
 * down again only when one of the intervals has changed that its last walk read: it watches these. */

/* Runs the propagator of a call, which generated code below defines. */
static bool ask(State *s, int32_t call);
static bool narrow_domain(State *s, int32_t cell, const Word *mask);

static inline void ask_call(State *s, int32_t call)
{
    if (!s->asked[call]) {
        s->asked[call] = 1;
        s->asks[s->ask_count++] = call;
    }
}

static void ask_later(State *s, int32_t calls)
{
    const int32_t *const list = links_at(s, calls);
    for (int32_t i = 1; i <= list[0]; i++)
        ask_call(s, list[i]);
}

/* A domain has changed. */
static inline void notice(State *s, int32_t cell)
{
    if (s->of->node_count)
        touch(s, cell);
}

/* ---- What propagators ask; intervals may be those from before a change, and are wider then ---- */

/* Whether a comparison may hold; before there is a graph, any may. */
static inline bool possible(State *s, int32_t n)
{
    if (n < 0 || !s->of->node_count)
        return true;
    if (s->ends[n].high && !s->is_collecting)
        ask_later(s, s->of->nodes[n].calls);
    return s->ends[n].high != 0;
}

static void walk_later(State *s, int32_t limit)
{
    if (!s->is_due[limit]) {
        s->is_due[limit] = 1;
        s->due[s->due_count++] = limit;
    }
}

/* The comparison must hold. */
static bool require(State *s, int32_t n)
{
    if (n < 0 || !s->of->node_count || s->ends[n].low || s->is_required[n])
        return true;
    if (!s->ends[n].high)
        return false;
    if (!s->is_collecting) {
        ask_later(s, s->of->nodes[n].calls);
        return true;
    }
    s->is_required[n] = 1;
    s->required[s->required_count++] = n;
    walk_later(s, n);
    return true;
}

/* All but the first `count` limits are no longer known to be required. */
static void forget_required(State *s, int32_t count)
{
    while (s->required_count > count)
        s->is_required[s->required[--s->required_count]] = 0;
}

/* ---- Watches ---- */

static inline bool is_current(const State *s, const Watch *watch) { return watch->walk == s->walks[watch->limit]; }

static void call_watchers(State *s, int32_t n)
{
    int32_t last = 0;
    for (int32_t at = s->watched[n]; at; at = s->watches[at].next) {
        const Watch *const watch = s->watches + at;
        if (is_current(s, watch) && s->is_required[watch->limit])
            walk_later(s, watch->limit);
        last = at;
    }
    s->watches[last].next = s->spare_watch;
    s->spare_watch = s->watched[n];
    s->watched[n] = 0;
}

/* Room for more watches: that of those which are out of date, or new one. */
static bool add_watches(State *s)
{
    int32_t spare = 0;
    for (int32_t n = 0; n < s->of->node_count; n++) {
        for (int32_t *at = s->watched + n; *at;) {
            Watch *const watch = s->watches + *at;
            if (is_current(s, watch)) {
                at = &watch->next;
                continue;
            }
            const int32_t number = *at;
            *at = watch->next;
            watch->next = s->spare_watch;
            s->spare_watch = number;
            spare++;
        }
    }
    if (spare > s->watch_room / 2)
        return true;
    Watch *const watches = realloc(s->watches, 2 * (size_t)s->watch_room * sizeof *watches);
    if (!watches)
        return spare > 0;
    s->watches = watches;
    for (int32_t at = s->watch_room; at < 2 * s->watch_room; at++) {
        watches[at].next = s->spare_watch;
        s->spare_watch = at;
    }
    s->watch_room *= 2;
    return true;
}

static bool watch(State *s, int32_t n, int32_t limit)
{
    int32_t at = s->watched[n];
    for (int32_t near = 0; at && near < NEAR_WATCHES; near++, at = s->watches[at].next) {
        if (s->watches[at].limit == limit || !is_current(s, s->watches + at)) {
            s->watches[at].limit = limit;
            s->watches[at].walk = s->walks[limit];
            return true;
        }
    }
    if (!s->spare_watch && !add_watches(s))
        return false;
    at = s->spare_watch;
    s->spare_watch = s->watches[at].next;
    s->watches[at] = (Watch){limit, s->walks[limit], s->watched[n]};
    s->watched[n] = at;
    return true;
}

/* ---- Walks ---- */

/* Keeps the values with which the leaf lies in `need`. */
static bool keep_values(State *s, const Node *leaf, Interval need)
{
    const int32_t cell = leaf->cell;
    Word kept[INTEGER_WORDS] = {s->v[cell]};
    if (!s->of->cells[cell].is_decision)
        return true;
    switch (leaf->op) {
    case POSITION_NODE:
        kept[0] &= up_to_last((Word)1 << need.high, 0) & from_first((Word)1 << need.low, 0);
        break;
    case IN_MASK_NODE: {
        const Word mask = (Word)s->of->node_data[leaf->data];
        kept[0] &= need.low ? mask : ~mask;
        break;
    }
    default: {
        const int64_t *const values = universe_of(s, cell) + 1;
        memcpy(kept, s->v + cell, MASK_WORDS * sizeof(Word));
        for (int32_t i = 0; i < MASK_WORDS; i++) {
            for (Word rest = kept[i]; rest; rest &= rest - 1) {
                const int64_t value = clamped(values[64 * i + __builtin_ctzll(rest)]);
                if (value < need.low || value > need.high)
                    kept[i] &= ~(rest & -rest);
            }
        }
    }
    }
    return narrow_domain(s, cell, kept);
}

/* Takes away the values that are outside of what the limit asks of the leaves below it. */
static bool walk_down(State *s, int32_t limit)
{
    bool is_consistent = true;
    s->walks[limit]++;
    if (!watch(s, limit, limit))
        return out_of_memory(s);
    ask_of(s, limit, 1, 1);
    while (s->need_count) {
        const int32_t n = next_needed(s);
        const Node *const node = s->of->nodes + n;
        const Interval now = s->ends[n];
        Interval need = s->needs[n];
        need.low = need.low > now.low ? need.low : now.low;
        need.high = need.high < now.high ? need.high : now.high;
        is_consistent = is_consistent && need.low <= need.high;
        if (!is_consistent)
            continue;
        if (is_leaf(node)) {
            is_consistent = keep_values(s, node, need);
            continue;
        }
        const int32_t *const operands = links_at(s, node->operands);
        for (int32_t i = 0; i < node->count; i++)
            if (s->of->nodes[operands[i]].op != CONSTANT_NODE && !watch(s, operands[i], limit))
                is_consistent = out_of_memory(s);
        ask_of_operands(s, node, need);
    }
    return is_consistent;
}

/* Asks all that are waiting which limits must hold, and removes the values that cannot meet them. */
static bool run_limits(State *s)
{
    bool is_consistent = true;
    refresh(s);
    s->is_collecting = true;
    while (s->ask_count && is_consistent) {
        const int32_t call = s->asks[--s->ask_count];
        s->asked[call] = 0;
        is_consistent = ask(s, call);
    }
    s->is_collecting = false;
    while (s->due_count && is_consistent) {
        const int32_t limit = s->due[--s->due_count];
        s->is_due[limit] = 0;
        is_consistent = !s->is_required[limit] || walk_down(s, limit);
    }
    return is_consistent;
}
