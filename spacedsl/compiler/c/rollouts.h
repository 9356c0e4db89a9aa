/* Rollouts: random ways down under a bound, on which a decision without any value left is taken back.
 *
 * Stands after nodes.h. What a rollout is, spacedsl/search/rollouts.py says; with the same seed it is the same here. */

#define NEVER __builtin_inf()

/* Of vectors, in nanoseconds; infinite for what can become nothing. As in spacedsl/search/bounds/bound.c. */
typedef void Bounds(const void *model, int32_t count, const Word *const *vectors, double *bounds_ns, double *terms_ns);

/* How much candidates are worth, and how long a rollout goes on. */
typedef struct {
    Bounds *bounds; /* NULL: all have the bound of the first one */
    const void *model;
    double cut_ns;   /* the best time, infinite while there is none */
    double scale;    /* of bounds */
    double floor_ns; /* added to bounds that are divided by */
    int32_t every;   /* decisions from one bound to the next */
    int32_t repairs; /* dead ends before it gives up */
} Worth;

/* Values of a decision; their child has a bound once it was propagated. */
typedef struct {
    Word mask[INTEGER_WORDS];
    double bound_ns;
    int64_t is_known;
} Part;

typedef struct {
    Word mask[INTEGER_WORDS];
    int64_t cell;
} Step;

/* What it came to. */
typedef struct {
    Word refused;             /* parts that constraints refused */
    double least_excluded_ns; /* the least bound that the cut excluded */
    double bound_ns;          /* of the end */
    int64_t steps;
} Found;

enum { GIVEN_UP = 1, EXHAUSTED = 2, COMPLETE = 3 };

/* Of a node on the way: the parts that are not refuted. Its `part` in the way is the one that the next lies below. */
typedef struct {
    double bound_ns;
    int32_t cell;
    int32_t left, room;
    Part *parts;
} Left;

typedef struct {
    State *s;
    const Ordering *o;
    const Worth *worth;
    Found *found;
    Way way;
    Left *left;
    int32_t room;
    bool is_back; /* whether the state holds the last node of the way */
    Word stream;
} Rollout;

static inline double weight(const Worth *w, double bound_ns)
{
    const double scaled = bound_ns * w->scale;
    if (w->cut_ns == NEVER)
        return 1.0 / (scaled + w->floor_ns);
    return scaled < w->cut_ns ? w->cut_ns - scaled : 0;
}

static inline bool is_excluded(const Worth *w, double bound_ns)
{
    return w->cut_ns != NEVER && bound_ns * w->scale >= w->cut_ns;
}

/* Of the state's vector, which has at least `least_ns`. */
static double bound_of(const Rollout *r, double least_ns)
{
    double bound_ns = least_ns;
    const Word *const vector = r->s->v;
    if (r->worth->bounds)
        r->worth->bounds(r->worth->model, 1, &vector, &bound_ns, NULL);
    return bound_ns > least_ns ? bound_ns : least_ns;
}

static Left *last(const Rollout *r) { return r->left + r->way.depth - 1; }

static void refute(Left *left, int32_t part)
{
    left->left--;
    memmove(left->parts + part, left->parts + part + 1, (size_t)(left->left - part) * sizeof *left->parts);
}

static void exclude(Rollout *r, int32_t part, double bound_ns)
{
    if (bound_ns < r->found->least_excluded_ns)
        r->found->least_excluded_ns = bound_ns;
    refute(last(r), part);
}

/* For so many parts of a node; false: no memory. */
static bool make_room(Rollout *r, Left *left, int32_t parts)
{
    if (parts > left->room) {
        Part *const grown = realloc(left->parts, (size_t)parts * sizeof *grown);
        if (!grown)
            return out_of_memory(r->s);
        left->parts = grown;
        left->room = parts;
    }
    left->left = parts;
    return true;
}

/* The state's vector as a node behind the last one, which is not yet part of the way; false: no memory. */
static bool arrive(Rollout *r, double bound_ns)
{
    Way *const way = &r->way;
    if (!grow(r->s, way))
        return false;
    if (r->room < way->room) {
        Left *const grown = realloc(r->left, (size_t)way->room * sizeof *grown);
        if (!grown)
            return out_of_memory(r->s);
        r->left = grown;
        memset(grown + r->room, 0, (size_t)(way->room - r->room) * sizeof *grown);
        r->room = way->room;
    }
    look(r->s, r->o, way->at + way->depth, way->depth ? way->at[way->depth - 1].from : 0, &r->stream);
    r->left[way->depth].bound_ns = bound_ns;
    r->is_back = true;
    return true;
}

/* The node behind the last one, with all parts of its decision, becomes the last one; false: no memory. */
static bool branch(Rollout *r)
{
    const Branching next = r->way.at[r->way.depth].next;
    Left *const left = r->left + r->way.depth;
    if (!make_room(r, left, next.parts))
        return false;
    left->cell = next.split->cell;
    for (int32_t part = 0; part < next.parts; part++) {
        left->parts[part].is_known = 0;
        part_mask(r->s, r->o, next.split, (Word)part, left->parts[part].mask);
    }
    r->way.depth++;
    return true;
}

/* From the last node to a child; false: a contradiction, or a fault. */
static bool come_to(Rollout *r, int32_t part)
{
    const Left *const left = last(r);
    if (!r->is_back)
        go_back(r->s, r->way.at + r->way.depth - 1);
    r->is_back = false;
    if (narrow_domain(r->s, left->cell, left->parts[part].mask) && to_fixpoint(r->s))
        return true;
    give_up(r->s);
    return false;
}

static bool are_known(const Left *left)
{
    for (int32_t part = 0; part < left->left; part++)
        if (!left->parts[part].is_known)
            return false;
    return true;
}

/* A part with probability proportional to its weight, where all are known. */
static int32_t by_weight(Rollout *r, const Left *left)
{
    double point = 0;
    int32_t part = 0, latest = 0;
    for (; part < left->left; part++)
        point += weight(r->worth, left->parts[part].bound_ns);
    point *= fraction(&r->stream);
    for (part = 0; part < left->left; part++) {
        const double weighs = weight(r->worth, left->parts[part].bound_ns);
        if (weighs <= 0)
            continue;
        latest = part;
        point -= weighs;
        if (point < 0)
            break;
    }
    return latest;
}

/* Of a part that was not propagated yet; false: its child is refuted. */
static bool learn(Rollout *r, int32_t part)
{
    Left *const left = last(r);
    const bool is_bounded = r->way.depth % r->worth->every == 0;
    const bool is_consistent = come_to(r, part);
    const double bound_ns = !is_consistent ? NEVER : is_bounded ? bound_of(r, left->bound_ns) : left->bound_ns;
    if (bound_ns == NEVER) {
        refute(left, part);
        r->found->refused++;
        return false;
    }
    if (is_excluded(r->worth, bound_ns)) {
        exclude(r, part, bound_ns);
        return false;
    }
    left->parts[part].bound_ns = bound_ns;
    left->parts[part].is_known = 1;
    return true;
}

/* A child of the last node, which the state then holds; false: all its parts are refuted, or a fault. */
static bool draw(Rollout *r)
{
    Left *const left = last(r);
    const double limit = weight(r->worth, left->bound_ns);
    while (left->left && !r->s->fault) {
        const bool is_direct = are_known(left);
        const int32_t part = is_direct ? by_weight(r, left) : (int32_t)below(&r->stream, (Word)left->left);
        const bool was_known = left->parts[part].is_known;
        if (!was_known && !learn(r, part))
            continue;
        if (is_direct || fraction(&r->stream) * limit < weight(r->worth, left->parts[part].bound_ns)) {
            r->way.part[r->way.depth - 1] = part;
            return !was_known || come_to(r, part);
        }
    }
    return false;
}

/* What lies below the part that was taken last is refuted. */
static void take_back(Rollout *r)
{
    refute(last(r), r->way.part[r->way.depth - 1]);
    r->is_back = false;
}

/* Goes on from the last node. */
static int32_t go_on(Rollout *r)
{
    int32_t dead_ends = 0;
    while (r->way.depth && !r->s->fault) {
        if (!draw(r)) {
            if (--r->way.depth) {
                take_back(r);
                if (++dead_ends > r->worth->repairs)
                    return GIVEN_UP;
            }
            continue;
        }
        const Left *const left = last(r);
        double bound_ns = left->parts[r->way.part[r->way.depth - 1]].bound_ns;
        if (!arrive(r, bound_ns))
            break;
        if (r->way.at[r->way.depth].next.split) {
            if (!branch(r))
                break;
            continue;
        }
        if (r->way.depth % r->worth->every)
            bound_ns = bound_of(r, bound_ns);
        if (bound_ns != NEVER && !is_excluded(r->worth, bound_ns)) {
            r->found->bound_ns = bound_ns;
            return COMPLETE;
        }
        exclude(r, r->way.part[r->way.depth - 1], bound_ns);
        r->is_back = false;
    }
    return EXHAUSTED;
}

/* One rollout from `vector`, which has this bound, at a fixpoint, and is not complete.
 *
 * `cell`: of the first decision, with `count` parts, some of which may be known. Returns FAULT where a check failed,
 * else what it came to: of COMPLETE, the `steps` (room for as many as the ordering has splits, and one) and the vector,
 * in `leaf`. */
EXPORT int32_t rollout(State *s, const Word *vector, const Ordering *o, const Worth *worth, double bound_ns, int32_t cell,
                       int32_t count, const Part *parts, Word seed, Found *found, Step *steps, Word *leaf)
{
    Rollout r = {.s = s, .o = o, .worth = worth, .found = found, .stream = stream_of(seed, 0)};
    int32_t end = EXHAUSTED;
    *found = (Found){0, NEVER, NEVER, 0};
    s->fault = 0;
    load(s, vector);
    keep_totals(s);
    if (!to_fixpoint(s))
        give_up(s);
    if (arrive(&r, bound_ns) && make_room(&r, r.left, count)) {
        r.left->cell = cell;
        memcpy(r.left->parts, parts, (size_t)count * sizeof *parts);
        r.way.depth = 1;
        end = go_on(&r);
    }
    if (end == COMPLETE) {
        found->steps = r.way.depth;
        for (int32_t i = 0; i < r.way.depth; i++) {
            steps[i].cell = r.left[i].cell;
            memcpy(steps[i].mask, r.left[i].parts[r.way.part[i]].mask, sizeof steps[i].mask);
        }
        memcpy(leaf, s->v, (size_t)s->of->words * sizeof(Word));
    }
    for (int32_t i = 0; i < r.room; i++)
        free(r.left[i].parts);
    free(r.left);
    free_way(&r.way);
    s->keeps_totals = false;
    return s->fault ? FAULT : end;
}
