/* The values next to quantiles, of a column in any order; scalar.c includes this for floats and for doubles.

   One pass finds the range of keys, a second counts them in the cells of an even grid over that range, a third lists the
   keys of the cells that hold a quantile and of the next cells that hold anything: only these are sorted. Zeros, of which
   there are often some, would spread the grid over numbers that nobody predicts: they share its first cell. */

static double NAME(value_of)(KEY key)
{
    VALUE value;
    memcpy(&value, &key, sizeof value);
    return (double)value;
}

/* Sort keys by eleven of their bits at a time; `spare` is as long. */
static void NAME(sort_keys)(KEY *keys, int64_t n, KEY *spare)
{
    KEY differ = 0, *from = keys, *to = spare;
    int sorted = 1;
    for (int64_t i = 1; i < n; i++) {
        differ |= keys[i] ^ keys[0];
        sorted &= keys[i - 1] <= keys[i];
    }
    for (int shift = 0; !sorted && shift < PASSES * DIGIT; shift += DIGIT) {
        if ((differ >> shift & (DIGITS - 1)) == 0)
            continue;
        uint32_t places[DIGITS] = {0}, before = 0;
        for (int64_t i = 0; i < n; i++)
            places[from[i] >> shift & (DIGITS - 1)]++;
        for (int digit = 0; digit < DIGITS; digit++) {
            const uint32_t own = places[digit];
            places[digit] = before;
            before += own;
        }
        for (int64_t i = 0; i < n; i++)
            to[places[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        KEY *other = from;
        from = to;
        to = other;
    }
    if (from != keys)
        memcpy(keys, from, (size_t)n * sizeof *keys);
}

/* List the keys of marked cells, and sort them. `keys` has room for two lists and a block. */
static void NAME(list)(const Form *form, const VALUE *values, int64_t n, const Grid *grid, int64_t listed, KEY *keys)
{
    uint32_t cells[BLOCK];
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t size = n - start < BLOCK ? n - start : BLOCK;
        form->key_cells(values + start, TYPE, size, grid->range, grid->shift, cells);
        for (int64_t i = 0; i < size; i++) {
            keys[found] = KEY_OF(values[start + i]);
            found += grid->marked[cells[i]];
        }
        found = found < listed ? found : listed; /* more, where another thread changed the values */
    }
    NAME(sort_keys)(keys, listed, keys + listed);
}

/* Write what is next to the quantiles, of sorted keys of the marked cells. */
static void NAME(write)(const Grid *grid, int64_t n, int64_t n_cuts, const KEY *keys, double *out)
{
    int64_t cut = 0, without_upper = 0, before = 0, first = 0;
    double lower = INFINITY;
    for (int64_t cell = 0; cell < grid->n_cells; before += grid->counts[cell++]) {
        const int64_t end = first + (grid->marked[cell] ? grid->counts[cell] : 0);
        for (int64_t i = first, j; i < end; i = j) {
            for (j = i + 1; j < end && keys[j] == keys[i];)
                j++;
            const double held = NAME(value_of)(keys[i]), up_to = (double)(before + j - first);
            for (; without_upper < cut; without_upper++)
                out[2 * n_cuts + without_upper] = held;
            for (; cut < n_cuts && quantile(n, cut + 1, n_cuts + 1) <= up_to; cut++) {
                out[cut] = lower;
                out[n_cuts + cut] = held;
                out[3 * n_cuts + cut] = (double)(before + i - first);
                out[4 * n_cuts + cut] = up_to;
            }
            lower = held;
        }
        first = end;
    }
    for (; without_upper < n_cuts; without_upper++)
        out[2 * n_cuts + without_upper] = INFINITY;
}

static int NAME(near)(const Form *form, const VALUE *values, int64_t n, int64_t n_cuts, Grid *grid, double *out)
{
    if (!count_keys(form, values, TYPE, sizeof *values, n, grid))
        return BAD_PROBABILITY;
    const int64_t listed = mark_cells(grid, n, n_cuts + 1);
    KEY *keys = calloc((size_t)(2 * listed + BLOCK), sizeof *keys);
    if (keys == NULL)
        return NO_MEMORY;
    NAME(list)(form, values, n, grid, listed, keys);
    NAME(write)(grid, n, n_cuts, keys, out);
    free(keys);
    return FINE;
}

#undef VALUE
#undef TYPE
#undef KEY
#undef KEY_OF
#undef PASSES
#undef NAME
