/* Nodes of the tree of decisions: vectors to which a state comes back, and the way down that they are on.
 *
 * Stands after descents.h. */

/* A vector with its bit rows, at a fixpoint, to which the state comes back after each child. */
typedef struct {
    Word *block;
    Point point;
    Branching next;
    int32_t from; /* in the ordering: what lies before is decided for good */
} Place;

/* The state's vector as a node; no split: it is complete. The random word is for orderings that draw. */
static void look(State *s, const Ordering *o, Place *node, int32_t from, Word *stream)
{
    copy_all(s, node->block, s->v);
    node->point = point_of(s);
    node->from = from;
    node->next = next_branching(s, o, &node->from, stream);
}

/* From the node, which the state holds, to a child; false: a contradiction, or a fault. */
static bool go_down(State *s, const Ordering *o, const Place *node, int32_t part)
{
    Word mask[INTEGER_WORDS];
    part_mask(s, o, node->next.split, (Word)part, mask);
    if (narrow_domain(s, node->next.split->cell, mask) && to_fixpoint(s))
        return true;
    give_up(s);
    return false;
}

static void go_back(State *s, const Place *node) { restore(s, node->block, node->point); }

/* Places for the nodes of one way down, made as it grows. */
typedef struct {
    Place *at;
    int32_t *part; /* of each, the next one to try */
    int32_t room, depth;
} Way;

static bool grow(State *s, Way *way)
{
    if (way->depth == way->room) {
        const int32_t room = 2 * way->room + 16;
        Place *const at = realloc(way->at, (size_t)room * sizeof *at);
        if (at)
            way->at = at;
        int32_t *const part = realloc(way->part, (size_t)room * sizeof *part);
        if (part)
            way->part = part;
        if (!at || !part)
            return out_of_memory(s);
        memset(at + way->room, 0, (size_t)(room - way->room) * sizeof *at);
        way->room = room;
    }
    Place *const node = way->at + way->depth;
    if (!node->block)
        node->block = malloc(block_words(s->of) * sizeof(Word));
    return node->block || out_of_memory(s);
}

static void free_way(Way *way)
{
    for (int32_t i = 0; i < way->room; i++)
        free(way->at[i].block);
    free(way->at);
    free(way->part);
}
