/* Counters of many contributions, while a vector is descended from: what each contributes, and the totals of all.
 *
 * Stands after integers.h. Such a counter is computed from its totals, which follow each contribution that changes,
 * and looks at all of them only where a limit may exclude something. Totals are copied with the vector; changes of
 * contributions, which are many, are undone. A total of factors that is WIDEST stands for everything beyond: no product
 * of words is equal to that prime. */

/* The totals of a counter; NULL: it has few contributions, or nothing descends. */
static inline Totals *totals_of(const State *s, int32_t cell)
{
    const int32_t tally = s->of->cells[cell].tally;
    return s->keeps_totals && tally ? s->totals + tally - 1 : NULL;
}

static inline const Tally *tally_of(const State *s, int32_t cell)
{
    return s->of->tallies + s->of->cells[cell].tally - 1;
}

static inline bool is_known(const Totals *totals) { return totals && totals->is_known; }

/* ---- Contributions ---- */

static inline int32_t whole_bits(Word factor) { return 63 - __builtin_clzll(factor); }

/* A product of which one factor has changed. */
static inline Wide rescaled(Wide total, Word was, Word now)
{
    return total == WIDEST ? WIDEST : multiply(total / was, now);
}

static Wide greatest_product(const State *s, const Tally *tally)
{
    Wide total = 1;
    for (int32_t i = tally->first; i < tally->first + tally->count && total < WIDEST; i++)
        total = multiply(total, s->contributions[i].high);
    return total;
}

static bool remember(State *s, int32_t place)
{
    if (s->change_count == s->change_room) {
        Change *const changes = realloc(s->changes, 2 * (size_t)s->change_room * sizeof *changes);
        if (!changes)
            return out_of_memory(s);
        s->changes = changes;
        s->change_room *= 2;
    }
    s->changes[s->change_count++] = (Change){place, s->contributions[place]};
    return true;
}

/* Back to when there were so many changes. */
static void undo_changes(State *s, int32_t count)
{
    while (s->change_count > count) {
        const Change *const change = s->changes + --s->change_count;
        s->contributions[change->place] = change->was;
    }
}

/* What the binding at a place contributes now: at least `low`, at most `high`. */
static bool contribute(State *s, int32_t cell, int32_t place, Wide low, Wide high)
{
    Totals *const totals = totals_of(s, cell);
    Contribution *const was = s->contributions + place, now = {(Word)low, (Word)high};
    s->contributions_read++;
    if (was->low == now.low && was->high == now.high)
        return true;
    if (!remember(s, place))
        return false;
    if (!tally_of(s, cell)->is_product) {
        totals->low += (Wide)now.low - was->low;
        totals->high += (Wide)now.high - was->high;
        *was = now;
        return true;
    }
    totals->low = rescaled(totals->low, was->low, now.low);
    totals->high = rescaled(totals->high, was->high, now.high);
    totals->bits += whole_bits(now.high) - whole_bits(was->high);
    *was = now;
    /* Of at most as many factors, whose product may be in reach. */
    if (totals->high == WIDEST && totals->bits < 127)
        totals->high = greatest_product(s, tally_of(s, cell));
    return true;
}

/* Nothing is contributed yet but the base, which stands first. */
static bool start_totals(State *s, int32_t cell, Wide base)
{
    const Tally *const tally = tally_of(s, cell);
    const Word neutral = tally->is_product;
    *totals_of(s, cell) = (Totals){neutral, neutral, UINT64_MAX, 0, 1};
    for (int32_t i = 0; i < tally->count; i++)
        s->contributions[tally->first + i] = (Contribution){neutral, neutral};
    return contribute(s, cell, tally->first, base, base);
}

/* ---- Limits ---- */

/* The most that one contribution leaves open: of a product its factor, of a sum the difference of its ends. */
static Word widest_of(const State *s, const Tally *tally)
{
    Word widest = 0;
    for (int32_t i = tally->first; i < tally->first + tally->count; i++) {
        const Contribution c = s->contributions[i];
        const Word width = c.low == c.high ? 0 : tally->is_product ? c.high : c.high - c.low;
        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Whether the limits of a counter leave room for every contribution. */
static bool has_room(const State *s, int32_t cell, const Totals *totals)
{
    const Wide least = s->v[cell], greatest = s->v[cell + 1];
    if (!tally_of(s, cell)->is_product)
        return (greatest == SATURATED || totals->widest <= greatest - totals->low) &&
               totals->widest <= totals->high - least;
    return !totals->widest || ((greatest == SATURATED || multiply(totals->low, totals->widest) <= greatest) &&
                               totals->high / totals->widest >= least);
}

/* Whether a limit may exclude something of some contribution. */
static bool may_exclude(State *s, int32_t cell)
{
    Totals *const totals = totals_of(s, cell);
    if (!totals)
        return true;
    if (totals->low >= s->v[cell] && totals->high <= s->v[cell + 1])
        return false;
    if (has_room(s, cell, totals))
        return false;
    /* Contributions have been settled since that was computed. */
    totals->widest = widest_of(s, tally_of(s, cell));
    if (has_room(s, cell, totals))
        return false;
    s->contributions_read += (Word)tally_of(s, cell)->count;
    return true;
}
