/* What Python calls to descend: random numbers, orderings of decisions, and whole random descents.
 *
 * Stands after propagation.h. Descent number n of a seed is the same in any batch. */

/* ---- Random numbers: splitmix64, a stream for each descent ---- */

static inline Word next_word(Word *stream)
{
    Word z = *stream += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static inline Word stream_of(Word seed, Word descent)
{
    Word stream = seed;
    const Word first = next_word(&stream);
    stream = first ^ descent * 0xd1342543de82ef95ULL;
    return next_word(&stream);
}

/* A number below `count`: the upper half of count times a random word. */
static inline Word below(Word *stream, Word count)
{
    return (Word)((unsigned __int128)next_word(stream) * count >> 64);
}

/* A number from 0 to 1, without 1, in steps of 2^-53. */
static inline double fraction(Word *stream) { return (double)(next_word(stream) >> 11) * 0x1p-53; }

/* ---- Orderings ---- */

/* A decision variable in its place. Its parts are its values, or the groups and what they leave. */
typedef struct {
    int32_t cell;
    int32_t words;    /* of its mask */
    int32_t group;    /* where its groups begin in `groups` */
    int32_t groups;   /* how many, 0: single values */
    int32_t presence; /* where the list of words that say whether its objects are present begins in `presence` */
} Split;

/* Which open decision comes next: the first, any one with the same probability, or the first of the fewest parts. */
enum { FIRST = 0, ANY = 1, SMALLEST = 2 };

typedef struct {
    int32_t splits;
    int32_t rule;
    const Split *order;
    const Word *groups;
    const int32_t *presence;
} Ordering;

typedef struct {
    const Split *split;
    int32_t parts;
} Branching;

static inline int32_t count_parts(const State *s, const Ordering *o, const Split *split)
{
    const Word *const domain = s->v + split->cell;
    int32_t parts = 0;
    if (!split->groups) {
        for (int32_t i = 0; i < split->words; i++)
            parts += __builtin_popcountll(domain[i]);
        return parts;
    }
    Word rest = *domain;
    for (int32_t i = 0; i < split->groups; i++) {
        parts += (*domain & o->groups[split->group + i]) != 0;
        rest &= ~o->groups[split->group + i];
    }
    return parts + (rest != 0);
}

/* Whether there is something to decide at this place. */
static inline bool has_parts(const State *s, const Ordering *o, const Split *split)
{
    if (split->words == 1 && !is_several(s->v[split->cell]))
        return false;
    return (split->words == 1 && !split->groups) || count_parts(s, o, split) > 1;
}

/* ABSENT, PRESENT, or both while that is not known. */
static inline Word presence_of(const State *s, const Ordering *o, const Split *split)
{
    const int32_t *const cells = o->presence + split->presence;
    Word known = PRESENT;
    for (int32_t i = 1; i <= cells[0]; i++) {
        if (s->v[cells[i]] == ABSENT)
            return ABSENT;
        known |= s->v[cells[i]];
    }
    return known;
}

/* The next open decision at or after `*from`; no split: the vector is complete. What lies before `*from` is decided
 * for good. */
static Branching next_branching(const State *s, const Ordering *o, int32_t *from, Word *stream)
{
    Branching found = {NULL, 0};
    bool is_settled = true;
    Word open = 0;
    for (int32_t i = *from; i < o->splits; i++) {
        const Split *const split = o->order + i;
        const Word known = has_parts(s, o, split) ? presence_of(s, o, split) : ABSENT;
        if (known == PRESENT && o->rule == FIRST)
            return (Branching){split, count_parts(s, o, split)};
        /* Of any, the n-th open one replaces the one chosen so far with probability 1/n. */
        if (known == PRESENT && o->rule == ANY && below(stream, ++open) == 0)
            found.split = split;
        if (known == PRESENT && o->rule == SMALLEST) {
            const int32_t parts = count_parts(s, o, split);
            if (!found.split || parts < found.parts)
                found = (Branching){split, parts};
            if (parts == 2)
                return found;
        }
        is_settled = is_settled && known == ABSENT;
        if (is_settled)
            *from = i + 1;
    }
    if (found.split)
        found.parts = count_parts(s, o, found.split);
    return found;
}

/* The mask of part number `part`, in order of values or groups. */
static void part_mask(const State *s, const Ordering *o, const Split *split, Word part, Word *mask)
{
    const Word *const domain = s->v + split->cell;
    memset(mask, 0, INTEGER_WORDS * sizeof(Word));
    if (!split->groups) {
        int32_t word = 0;
        for (; part >= (Word)__builtin_popcountll(domain[word]); word++)
            part -= (Word)__builtin_popcountll(domain[word]);
        Word rest = domain[word];
        for (; part; part--)
            rest &= rest - 1;
        mask[word] = rest & -rest;
        return;
    }
    Word rest = *domain;
    for (int32_t i = 0; i < split->groups; i++) {
        const Word group = o->groups[split->group + i];
        rest &= ~group;
        if ((*domain & group) && !part--) {
            *mask = *domain & group;
            return;
        }
    }
    *mask = rest;
}

/* ---- Descents ---- */

typedef struct {
    Word descents, complete, decisions, refutations;
} Counts;

static inline void copy_all(const State *s, Word *to, const Word *from)
{
    memcpy(to, from, block_words(s->of) * sizeof(Word));
}

/* Of a vector on a path, what a copy of it does not hold. */
typedef struct {
    int32_t required; /* limits that were known to be required */
    int32_t changes;  /* of contributions */
} Point;

static inline Point point_of(const State *s) { return (Point){s->required_count, s->change_count}; }

/* Back to an earlier vector of the same path. */
static void restore(State *s, const Word *from, Point at)
{
    if (s->of->node_count)
        for (int32_t cell = 0; cell < s->of->words; cell++)
            if (s->v[cell] != from[cell])
                touch(s, cell);
    copy_all(s, s->v, from);
    undo_changes(s, at.changes);
    forget_required(s, at.required);
    refresh(s);
}

/* From the vector in the state to a complete one; false: a decision has no part left, or a fault. */
static bool descend(State *s, const Ordering *o, bool refutes, Word stream, Counts *counts)
{
    int32_t from = 0;
    for (;;) {
        const Branching next = next_branching(s, o, &from, &stream);
        if (!next.split)
            return true;
        const int32_t cell = next.split->cell;
        Word drawn[INTEGER_WORDS], rest[INTEGER_WORDS], left = 0;
        part_mask(s, o, next.split, below(&stream, (Word)next.parts), drawn);
        copy_all(s, s->saved, s->v);
        const Point saved = point_of(s);
        if (narrow_domain(s, cell, drawn) && to_fixpoint(s)) {
            counts->decisions++;
            continue;
        }
        give_up(s);
        counts->refutations++;
        if (s->fault || !refutes)
            return false;
        restore(s, s->saved, saved);
        for (int32_t i = 0; i < next.split->words; i++)
            left |= rest[i] = s->v[cell + i] & ~drawn[i];
        if (!left || !narrow_domain(s, cell, rest) || !to_fixpoint(s)) {
            give_up(s);
            return false;
        }
    }
}

/* A fingerprint of a vector. */
static Word digest(const Word *vector, int32_t words)
{
    Word sum = 0;
    for (int32_t i = 0; i < words; i++) {
        Word stream = sum ^ vector[i];
        sum = next_word(&stream);
    }
    return sum;
}

/* `count` descents from `vector`, numbered from `first`: those of one seed and number are the same, in any batch.
 *
 * Where they are wanted: `digests`, one for each descent, of its complete vector, 0 for a dead end; `leaf`, the last
 * complete vector. Returns FAULT where a check failed, else NARROWED. */
EXPORT int32_t random_descents(State *s, const Word *vector, const Ordering *o, int32_t refutes, Word seed, Word first,
                               Word count, Counts *counts, Word *digests, Word *leaf)
{
    s->fault = 0;
    load(s, vector);
    Word *const start_of_all = malloc(block_words(s->of) * sizeof(Word));
    if (!start_of_all)
        return FAULT;
    keep_totals(s);
    /* What has to hold of the vector that all start from is found out once. */
    if (!to_fixpoint(s))
        give_up(s);
    copy_all(s, start_of_all, s->v);
    const Point start = point_of(s);
    for (Word i = 0; i < count && !s->fault; i++) {
        if (i)
            restore(s, start_of_all, start);
        counts->descents++;
        const bool is_complete = descend(s, o, refutes, stream_of(seed, first + i), counts);
        counts->complete += is_complete;
        if (digests)
            digests[i] = is_complete ? digest(s->v, s->of->words) : 0;
        if (leaf && is_complete)
            memcpy(leaf, s->v, (size_t)s->of->words * sizeof(Word));
    }
    free(start_of_all);
    s->keeps_totals = false;
    return s->fault ? FAULT : NARROWED;
}

/* The place in the ordering of the next decision of a vector, -1: it is complete. Not for the rule ANY. */
EXPORT int32_t next_place(const State *s, Word *vector, const Ordering *o)
{
    State view = *s;
    Word stream = 0;
    int32_t from = 0;
    view.v = vector;
    const Branching next = next_branching(&view, o, &from, &stream);
    return next.split ? (int32_t)(next.split - o->order) : -1;
}
