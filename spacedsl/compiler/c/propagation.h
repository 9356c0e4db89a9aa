/* What Python calls to propagate: states, and restrictions of one vector.
 *
 * Generated code above defines `start`, `start_limited`, `wake` and `compute`, and `mirrored` for pairs. An instance may be shared by
 * threads; a state is for one thread at a time. */

#define EXPORT __attribute__((visibility("default")))

enum { FAULT = -1, CONTRADICTION = 0, NARROWED = 1, UNCHANGED = 2 };

/* ---- States ---- */

EXPORT void free_state(State *s)
{
    if (!s)
        return;
    free(s->v);
    free(s->saved);
    free(s->before);
    free(s->waiting);
    free(s->dirty);
    free(s->queue);
    free(s->later);
    free(s->contributions);
    free(s->changes);
    free(s->ends);
    free(s->pending);
    free(s->pending_words);
    free(s->asked);
    free(s->asks);
    free(s->is_required);
    free(s->required);
    free(s->is_due);
    free(s->due);
    free(s->walks);
    free(s->watched);
    free(s->watches);
    free(s->is_needed);
    free(s->needs);
    free(s->need_heap);
    free(s);
}

/* Where totals begin behind the bit rows. */
static size_t row_end(const Instance *of) { return ((size_t)of->words + (size_t)of->row_words + 1) & ~(size_t)1; }

static size_t block_words(const Instance *of)
{
    return row_end(of) + (size_t)of->tally_count * sizeof(Totals) / sizeof(Word);
}

/* Memory for the graph; false: there is none. */
static bool add_graph(State *s)
{
    const size_t nodes = (size_t)s->of->node_count, calls = (size_t)s->of->call_count;
    s->ends = malloc(nodes * sizeof *s->ends);
    s->pending = calloc(nodes / 64 + 1, sizeof(Word));
    s->pending_words = calloc(nodes / 4096 + 1, sizeof(Word));
    s->asked = calloc(calls + 1, 1);
    s->asks = malloc((calls + 1) * sizeof *s->asks);
    s->is_required = calloc(nodes, 1);
    s->required = malloc(nodes * sizeof *s->required);
    s->is_due = calloc(nodes, 1);
    s->due = malloc(nodes * sizeof *s->due);
    s->walks = calloc(nodes, sizeof *s->walks);
    s->watched = calloc(nodes, sizeof *s->watched);
    s->watch_room = 1;
    s->watches = calloc(1, sizeof *s->watches);
    s->is_needed = calloc(nodes, 1);
    s->needs = malloc(nodes * sizeof *s->needs);
    s->need_heap = malloc(nodes * sizeof *s->need_heap);
    return s->ends && s->pending && s->pending_words && s->asked && s->asks && s->is_required && s->required &&
           s->is_due && s->due && s->walks && s->watched && s->watches && s->is_needed && s->needs && s->need_heap;
}

/* A state that holds the vector before any propagation; NULL: no memory. */
EXPORT State *new_state(const Instance *of)
{
    State *const s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    const size_t words = (size_t)of->words, all = block_words(of);
    size_t ring = 1;
    while (ring < words)
        ring *= 2;
    s->of = of;
    s->ring = (int32_t)ring - 1;
    s->v = malloc(all * sizeof(Word));
    s->saved = malloc(all * sizeof(Word));
    s->before = malloc((words + INTEGER_WORDS) * sizeof(Word));
    s->waiting = calloc(words, 1);
    s->dirty = calloc(words, 1);
    s->queue = malloc(ring * sizeof(int32_t));
    s->later = malloc(words * sizeof(int32_t));
    s->contributions = malloc((size_t)of->contribution_count * sizeof *s->contributions);
    s->change_room = of->contribution_count;
    s->changes = malloc((size_t)s->change_room * sizeof *s->changes);
    if (!s->v || !s->saved || !s->before || !s->waiting || !s->dirty || !s->queue || !s->later || !s->contributions ||
        !s->changes) {
        free_state(s);
        return NULL;
    }
    s->rows = s->v + words;
    s->totals = (Totals *)(s->v + row_end(of));
    memcpy(s->v, of->initial, words * sizeof(Word));
    memcpy(s->rows, of->initial_rows, (size_t)of->row_words * sizeof(Word));
    if (of->node_count) {
        if (!add_graph(s)) {
            free_state(s);
            return NULL;
        }
        compute_all_nodes(s);
    }
    return s;
}

/* Why the last call returned FAULT: 1 + the number of the check, and the value that it refused. */
EXPORT int32_t fault_of(const State *s, Word *value)
{
    memcpy(value, s->fault_value, sizeof s->fault_value);
    return s->fault;
}

/* The state holds a vector whose limits have not been looked at. */
static void ask_everything(State *s)
{
    forget_required(s, 0);
    for (int32_t call = 0; call < s->of->call_count; call++)
        ask_call(s, call);
}

/* Makes the state hold a vector; bit rows and nodes follow the words that differ. */
static void load(State *s, const Word *vector)
{
    bool is_same = s->is_at_rest;
    if (!s->of->row_words && !s->of->node_count) {
        memcpy(s->v, vector, (size_t)s->of->words * sizeof(Word));
        return;
    }
    for (int32_t cell = 0; cell < s->of->words; cell++) {
        const Word had = s->v[cell], has_now = vector[cell];
        if (had == has_now)
            continue;
        is_same = false;
        s->v[cell] = has_now;
        if (s->of->node_count)
            touch(s, cell);
        const Cell *const c = s->of->cells + cell;
        if (c->row < 0)
            continue;
        drop(s, c, had & ~has_now);
        for (Word more = has_now & ~had; more; more &= more - 1)
            s->rows[c->row + (c->bit >> 6) + __builtin_ctzll(more) * ROW_WORDS] |= (Word)1 << (c->bit & 63);
    }
    s->is_at_rest = false;
    if (s->of->node_count && !is_same) {
        refresh(s);
        ask_everything(s);
    }
}

/* ---- Propagation ---- */

/* What follows but for counters and limits on quantities, which come last. */
static bool run_wakes(State *s)
{
    while (s->queued) {
        const int32_t cell = s->queue[s->first++ & s->ring];
        s->queued--;
        s->waiting[cell] = 0;
        notice(s, cell);
        if (!wake(s, cell))
            return false;
    }
    return true;
}

static bool to_fixpoint(State *s)
{
    while (run_wakes(s)) {
        if (s->latest) {
            const int32_t cell = s->later[--s->latest];
            s->dirty[cell] = 0;
            if (!compute(s, cell))
                return false;
        } else if (s->is_dirty || s->ask_count || s->due_count) {
            if (!run_limits(s))
                return false;
        } else {
            s->is_at_rest = true;
            return true;
        }
    }
    return false;
}

/* Counters of many contributions are computed once more, and then follow each change. */
static void keep_totals(State *s)
{
    s->keeps_totals = s->of->tally_count > 0;
    s->change_count = 0;
    for (int32_t tally = 0; tally < s->of->tally_count; tally++) {
        s->totals[tally].is_known = 0;
        compute_later(s, s->of->tallied[tally]);
    }
}

/* How many contributions of tallies have been looked at in this state. */
EXPORT Word contributions_read(const State *s) { return s->contributions_read; }

/* Empties the queues after a contradiction. Limits that are due stay so: they may have to be walked down again. */
static void give_up(State *s)
{
    while (s->queued) {
        const int32_t cell = s->queue[(s->first + --s->queued) & s->ring];
        s->waiting[cell] = 0;
        notice(s, cell);
    }
    while (s->latest)
        s->dirty[s->later[--s->latest]] = 0;
    while (s->ask_count)
        s->asked[s->asks[--s->ask_count]] = 0;
    s->is_at_rest = false;
}

static bool narrow_domain(State *s, int32_t cell, const Word *mask)
{
    const Cell *const c = s->of->cells + cell;
    if (c->universe >= 0)
        return keep(s, cell, mask);
    const Word kept = s->v[cell] & *mask;
    if (kept == s->v[cell])
        return true;
    return c->twin >= 0 ? narrow_pair(s, cell, kept, mirrored(c->source, kept)) : narrow(s, cell, kept);
}

static int32_t ended(State *s, bool is_consistent)
{
    if (is_consistent)
        return NARROWED;
    give_up(s);
    return s->fault ? FAULT : CONTRADICTION;
}

/* Every propagator on every binding, to the fixpoint, into `vector`. */
EXPORT int32_t propagate_root(State *s, Word *vector)
{
    s->fault = 0;
    load(s, s->of->initial);
    const int32_t end = ended(s, start(s) && to_fixpoint(s));
    memcpy(vector, s->v, (size_t)s->of->words * sizeof(Word));
    return end;
}

/* What limits on quantities remove from the root that all else has made; the graph is of that. */
EXPORT int32_t propagate_limits(State *s, Word *vector)
{
    s->fault = 0;
    load(s, vector);
    const int32_t end = ended(s, start_limited(s) && to_fixpoint(s));
    memcpy(vector, s->v, (size_t)s->of->words * sizeof(Word));
    return end;
}

/* The domain at `cell` of `vector` keeps the values of `mask`; what follows, into `vector` itself. */
EXPORT int32_t restrict_domain(State *s, Word *vector, int32_t cell, const Word *mask)
{
    s->fault = 0;
    load(s, vector);
    const int32_t end = ended(s, narrow_domain(s, cell, mask) && to_fixpoint(s));
    memcpy(vector, s->v, (size_t)s->of->words * sizeof(Word));
    return end;
}

/* The same for several domains, and propagated once; `masks` has INTEGER_WORDS for each. */
EXPORT int32_t restrict_domains(State *s, Word *vector, int32_t count, const int32_t *cells, const Word *masks)
{
    bool is_consistent = true;
    s->fault = 0;
    load(s, vector);
    for (int32_t i = 0; i < count && is_consistent; i++)
        is_consistent = narrow_domain(s, cells[i], masks + i * INTEGER_WORDS);
    const int32_t end = ended(s, is_consistent && to_fixpoint(s));
    memcpy(vector, s->v, (size_t)s->of->words * sizeof(Word));
    return end;
}

/* Of the quantities of a vector, by node. */
EXPORT void least_and_greatest_values(State *s, const Word *vector, int64_t *least, int64_t *greatest)
{
    s->fault = 0;
    load(s, vector);
    for (int32_t node = 0; node < s->of->node_count; node++) {
        least[node] = s->ends[node].low;
        greatest[node] = s->ends[node].high;
    }
}
