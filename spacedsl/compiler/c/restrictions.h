/* Restrictions of many domains at once, of which those are kept that the ones before them allow.
 *
 * Stands after descents.h. */

/* Restrictions after which counters and limits are computed, at most. */
enum { COMPUTED_AFTER = 32 };

/* Whether a mask keeps some of the values of a domain that has several. */
static bool is_open_to(const State *s, int32_t cell, const Word *mask)
{
    const int32_t words = s->of->cells[cell].universe >= 0 ? INTEGER_WORDS : 1;
    int32_t values = 0;
    Word kept = 0;
    for (int32_t word = 0; word < words; word++) {
        values += __builtin_popcountll(s->v[cell + word]);
        kept |= s->v[cell + word] & mask[word];
    }
    return values > 1 && kept;
}

/* As if each of several domains of `vector` were restricted by itself, in this order, and stayed what it is where that
 * is refused. Counters and limits are computed once for many restrictions and, where they refuse one of these, for half
 * as many until it is found. What they refuse is rarely alone: those behind it are tried by themselves. What is refused
 * is undone: the state goes back to its last copy. */
EXPORT int32_t restrict_allowed(State *s, Word *vector, int32_t count, const int32_t *cells, const Word *masks)
{
    int32_t done[COMPUTED_AFTER];            /* since the copy */
    int32_t from = 0, most = COMPUTED_AFTER; /* the first one behind the copy, and how many are done at once */
    int32_t until = 0;                       /* what lies behind was not yet tried */
    s->fault = 0;
    load(s, vector);
    if (!to_fixpoint(s))
        give_up(s);
    copy_all(s, s->saved, s->v);
    Point copied = point_of(s);
    while (from < count && !s->fault) {
        int32_t at = from, dones = 0;
        bool is_refused = false;
        for (; at < count && dones < most && !is_refused; at++) {
            const Word *const mask = masks + at * INTEGER_WORDS;
            if (!is_open_to(s, cells[at], mask))
                continue;
            is_refused = !narrow_domain(s, cells[at], mask) || !run_wakes(s);
            if (!is_refused)
                done[dones++] = at;
        }
        if (is_refused) {
            give_up(s);
            restore(s, s->saved, copied);
            for (int32_t i = 0; i < dones; i++)
                narrow_domain(s, cells[done[i]], masks + done[i] * INTEGER_WORDS);
        }
        if (to_fixpoint(s)) {
            copy_all(s, s->saved, s->v);
            copied = point_of(s);
            from = at;
            most = from >= until ? COMPUTED_AFTER : most > 1 ? most / 2 : 1;
            continue;
        }
        give_up(s);
        restore(s, s->saved, copied);
        until = at > until ? at : until;
        if (dones == 1)
            from = done[0] + 1;
        most = dones > 1 ? dones / 2 : 1;
    }
    memcpy(vector, s->v, (size_t)s->of->words * sizeof(Word));
    return s->fault ? FAULT : NARROWED;
}
