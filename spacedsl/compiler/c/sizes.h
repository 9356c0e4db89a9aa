/* How many complete vectors lie below one: counted, or estimated by random probes of the tree of decisions.
 *
 * Stands after nodes.h. A node's children are the parts of its next decision that propagation does not contradict;
 * a node without any is a dead end. Knuth, "Estimating the efficiency of backtrack programs" (1975), and Chen,
 * "Heuristic sampling" (1992). Probe number n of a seed is the same in any batch. */

/* ---- Numbers that may be beyond a double: m * 2^(512 * scale), exact as long as m has 53 bits ---- */

typedef struct {
    double m;
    int32_t scale;
} Weight;

#define STEP 0x1p512
#define NO_WEIGHT ((Weight){0, 0})

static inline Weight scaled(double m, int32_t scale)
{
    return m >= STEP ? (Weight){m / STEP, scale + 1} : (Weight){m, scale};
}

static inline Weight times(Weight w, int32_t n) { return scaled(w.m * n, w.scale); }

/* Of two weights the part of the smaller one that the scale of the greater one can hold. */
static inline double at_scale(Weight w, int32_t scale)
{
    return w.scale == scale ? w.m : w.scale == scale - 1 ? w.m / STEP : 0;
}

static inline Weight plus(Weight a, Weight b)
{
    const int32_t scale = a.scale > b.scale ? a.scale : b.scale;
    return scaled(at_scale(a, scale) + at_scale(b, scale), scale);
}

/* True with the probability part / whole. */
static inline bool falls_into(Word *stream, Weight part, Weight whole)
{
    return fraction(stream) * whole.m < at_scale(part, whole.scale);
}

/* ---- Counting ---- */

/* All complete vectors below `vector`, unless the tree has more than `most` nodes. Returns FAULT where a check failed,
 * UNCHANGED where there are more nodes, else NARROWED. */
EXPORT int32_t count_leaves(State *s, const Word *vector, const Ordering *o, Word most, Word *leaves)
{
    Word stream = 0, nodes = 1;
    Way way = {0};
    *leaves = 0;
    s->fault = 0;
    load(s, vector);
    keep_totals(s);
    if (!to_fixpoint(s))
        give_up(s);
    if (grow(s, &way)) {
        look(s, o, way.at, 0, &stream);
        way.part[0] = 0;
        way.depth = way.at->next.split != NULL;
        *leaves = !way.depth;
    }
    while (way.depth && !s->fault && nodes <= most) {
        Place *const node = way.at + way.depth - 1;
        int32_t *const part = way.part + way.depth - 1;
        if (*part == node->next.parts) {
            way.depth--;
            continue;
        }
        if (*part)
            go_back(s, node);
        if (!go_down(s, o, node, (*part)++))
            continue;
        nodes++;
        if (!grow(s, &way))
            break;
        look(s, o, way.at + way.depth, way.at[way.depth - 1].from, &stream);
        way.part[way.depth] = 0;
        if (way.at[way.depth].next.split)
            way.depth++;
        else
            ++*leaves;
    }
    free_way(&way);
    s->keeps_totals = false;
    return s->fault ? FAULT : nodes > most ? UNCHANGED : NARROWED;
}

/* ---- Knuth: one way down, and the product of the numbers of children on it ---- */

/* A child of the node, each with the same probability: the last valid one in a random order. Returns how many are valid;
 * the state then holds that child. */
static int32_t take_child(State *s, const Ordering *o, const Place *node, Word *stream)
{
    uint16_t order[64 * INTEGER_WORDS];
    int32_t valid = 0, last = -1;
    bool is_there = false;
    for (int32_t i = 0; i < node->next.parts; i++) {
        const int32_t j = (int32_t)below(stream, (Word)i + 1);
        order[i] = (uint16_t)i;
        order[i] = order[j];
        order[j] = (uint16_t)i;
    }
    for (int32_t i = 0; i < node->next.parts && !s->fault; i++) {
        if (i)
            go_back(s, node);
        is_there = go_down(s, o, node, order[i]);
        if (is_there) {
            valid++;
            last = order[i];
        }
    }
    if (valid && !is_there && !s->fault) {
        go_back(s, node);
        go_down(s, o, node, last);
    }
    return valid;
}

/* `count` probes, numbered from `first`: of each the estimate, 0 for a dead end, as m * 2^(512 * scale). */
EXPORT int32_t knuth_probes(State *s, const Word *vector, const Ordering *o, Word seed, Word first, Word count,
                            double *m, int32_t *scales)
{
    Place root = {0}, node = {0};
    s->fault = 0;
    load(s, vector);
    keep_totals(s);
    root.block = malloc(block_words(s->of) * sizeof(Word));
    node.block = malloc(block_words(s->of) * sizeof(Word));
    if (!root.block || !node.block)
        out_of_memory(s);
    else if (!to_fixpoint(s))
        give_up(s);
    for (Word i = 0; i < count && !s->fault; i++) {
        Word stream = stream_of(seed, first + i);
        Weight weight = {1, 0};
        if (i)
            go_back(s, &root);
        look(s, o, &root, 0, &stream);
        copy_all(s, node.block, root.block);
        node = (Place){node.block, root.point, root.next, root.from};
        while (node.next.split && weight.m > 0 && !s->fault) {
            weight = times(weight, take_child(s, o, &node, &stream));
            look(s, o, &node, node.from, &stream);
        }
        m[i] = weight.m;
        scales[i] = weight.m > 0 ? weight.scale : 0;
    }
    free(root.block);
    free(node.block);
    s->keeps_totals = false;
    return s->fault ? FAULT : NARROWED;
}

/* ---- Chen: one node for each stratum of a level, which stands for all that were met there ---- */

/* Nodes of a level with the same number of open decisions. */
typedef struct {
    Weight weight;
    int32_t open;
    Word *vector;
} Stratum;

typedef struct {
    Stratum *at; /* `count` of them in use, as they were met; the vectors of others are kept to be used again */
    int32_t *of; /* by number of open decisions, 1 + the place in `at`, 0: none */
    int32_t count, room;
} Level;

static bool add_level(State *s, Level *level, const Ordering *o)
{
    level->of = calloc((size_t)o->splits + 1, sizeof *level->of);
    return level->of || out_of_memory(s);
}

static void clear_level(Level *level)
{
    for (int32_t i = 0; i < level->count; i++)
        level->of[level->at[i].open] = 0;
    level->count = 0;
}

static void free_level(Level *level)
{
    for (int32_t i = 0; i < level->room; i++)
        free(level->at[i].vector);
    free(level->at);
    free(level->of);
}

static int32_t count_open(const State *s, const Ordering *o)
{
    int32_t open = 0;
    for (int32_t i = 0; i < o->splits; i++)
        open += has_parts(s, o, o->order + i) && presence_of(s, o, o->order + i) == PRESENT;
    return open;
}

/* The state's vector, met with a weight: it may come to stand for its stratum. False: no memory. */
static bool meet(State *s, Level *level, int32_t open, Weight weight, Word *stream)
{
    const size_t bytes = (size_t)s->of->words * sizeof(Word);
    if (level->of[open]) {
        Stratum *const stratum = level->at + level->of[open] - 1;
        stratum->weight = plus(stratum->weight, weight);
        if (falls_into(stream, weight, stratum->weight))
            memcpy(stratum->vector, s->v, bytes);
        return true;
    }
    if (level->count == level->room) {
        const int32_t room = 2 * level->room + 16;
        Stratum *const at = realloc(level->at, (size_t)room * sizeof *at);
        if (!at)
            return out_of_memory(s);
        memset(at + level->room, 0, (size_t)(room - level->room) * sizeof *at);
        level->at = at;
        level->room = room;
    }
    Stratum *const stratum = level->at + level->count++;
    level->of[open] = level->count;
    if (!stratum->vector)
        stratum->vector = malloc(bytes);
    if (!stratum->vector)
        return out_of_memory(s);
    stratum->weight = weight;
    stratum->open = open;
    memcpy(stratum->vector, s->v, bytes);
    return true;
}

/* All children of the state's vector: complete ones into `total`, the others into the next level. */
static void expand(State *s, const Ordering *o, Place *node, Weight weight, Level *next, Weight *total, Word *stream)
{
    look(s, o, node, 0, stream);
    for (int32_t part = 0; part < node->next.parts && !s->fault; part++) {
        if (part)
            go_back(s, node);
        if (!go_down(s, o, node, part))
            continue;
        const int32_t open = count_open(s, o);
        if (!open)
            *total = plus(*total, weight);
        else if (!meet(s, next, open, weight, stream))
            return;
    }
}

/* One probe; false: it would expand more than `*most` nodes, from which those that it did are taken. */
static bool probe_strata(State *s, const Word *vector, const Ordering *o, Level *levels, Place *node, Word *most,
                         Weight *total, Word *stream)
{
    clear_level(levels);
    clear_level(levels + 1);
    *total = NO_WEIGHT;
    load(s, vector);
    const int32_t open = count_open(s, o);
    if (!open)
        *total = (Weight){1, 0};
    else
        meet(s, levels, open, (Weight){1, 0}, stream);
    for (Level *level = levels, *next = levels + 1; level->count && !s->fault;) {
        for (int32_t i = 0; i < level->count && !s->fault; i++) {
            if (!*most)
                return false;
            --*most;
            load(s, level->at[i].vector);
            if (!to_fixpoint(s))
                give_up(s);
            expand(s, o, node, level->at[i].weight, next, total, stream);
        }
        clear_level(level);
        Level *const after = level;
        level = next;
        next = after;
    }
    return true;
}

/* `count` probes, numbered from `first`, as above, which expand no more than `most` nodes together. Into `done`, how
 * many came to their end. */
EXPORT int32_t chen_probes(State *s, const Word *vector, const Ordering *o, Word seed, Word first, Word count, Word most,
                           double *m, int32_t *scales, Word *done)
{
    Level levels[2] = {0};
    Place node = {0};
    s->fault = 0;
    *done = 0;
    node.block = malloc(block_words(s->of) * sizeof(Word));
    if (node.block && add_level(s, levels, o) && add_level(s, levels + 1, o)) {
        for (; *done < count && !s->fault; ++*done) {
            Word stream = stream_of(seed, first + *done);
            Weight total;
            if (!probe_strata(s, vector, o, levels, &node, &most, &total, &stream))
                break;
            m[*done] = total.m;
            scales[*done] = total.scale;
        }
    } else {
        out_of_memory(s);
    }
    free(node.block);
    free_level(levels);
    free_level(levels + 1);
    return s->fault ? FAULT : NARROWED;
}
