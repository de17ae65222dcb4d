/* The bin of each value in [0, 1], added twice to the number of its cell. */

/* For bins with edges at 1 / n_bins, 2 / n_bins, ...: a product that is never too large tells the bin within one,
   and the edge itself, made of two parts of 1 / n_bins whose first product is exact, decides.
   calibrant.engines.cells.is_even says for which numbers of bins. */
static void FORM(even_bins)(const double *values, int64_t n, int32_t n_bins, int32_t *cells)
{
    const double scale = n_bins * (1.0 - 0x1p-50);
    const double high = rint(0x1p32 / n_bins) / 0x1p32;
    const double low = (1.0 - n_bins * high) / n_bins;
    for (int64_t i = 0; i < n; i++) {
        int32_t below = (int32_t)(values[i] * scale);
        double above = (double)below + 1.0;
        double edge = above * high + above * low;
        cells[i] += 2 * (below + (values[i] > edge ? 1 : 0));
    }
}

/* How many edges lie strictly below x, of which fewer than 2^steps are beyond the first `low`: a search without a
   branch. */
static inline int64_t FORM(edges_below)(double x, const double *edges, int64_t low, int32_t steps)
{
    for (int32_t step = steps - 1; step >= 0; step--) {
        int64_t width = (int64_t)1 << step;
        low += x > edges[low + width - 1] ? width : 0;
    }
    return low;
}

/* The grid knows the edges below a value's place; the few inside it are compared with the value. */
static void FORM(grid_bins)(const Lookup *lookup, const double *values, int64_t n, int32_t *cells)
{
    const double *edges = lookup->edges, scale = lookup->scales[0];
    const double last = (double)(lookup->grid_size - 1);
    const int64_t *grid = lookup->grids;
    const int32_t steps = lookup->steps;
    int32_t places[BLOCK_VALUES];
    for (int64_t i = 0; i < n; i++) {
        double place = values[i] * scale;
        places[i] = (int32_t)(place < last ? place : last);
    }
    if (steps == 1) {
        for (int64_t i = 0; i < n; i++) {
            int64_t low = grid[places[i]];
            cells[i] += 2 * (int32_t)(low + (values[i] > edges[low] ? 1 : 0));
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            cells[i] += 2 * (int32_t)FORM(edges_below)(values[i], edges, grid[places[i]], steps);
    }
}

/* The same for neighbouring columns of one row, each with a grid and a scale of its own. */
static void FORM(column_bins)(const Lookup *lookup, int64_t first, const double *values, int64_t n,
                              int32_t *cells)
{
    const double *edges = lookup->edges, *scales = lookup->scales + first;
    const double last = (double)(lookup->grid_size - 1);
    const int64_t *grids = lookup->grids + first * lookup->grid_size;
    const int32_t steps = lookup->steps;
    int32_t places[TILE_COLUMNS];
    for (int64_t k = 0; k < n; k++) {
        double place = values[k] * scales[k];
        places[k] = (int32_t)(place < last ? place : last);
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t low = grids[k * lookup->grid_size + places[k]];
        if (steps == 1)
            low += values[k] > edges[low] ? 1 : 0;
        else
            low = FORM(edges_below)(values[k], edges, low, steps);
        cells[k] += 2 * (int32_t)low;
    }
}

static ONE_COPY void FORM(bins)(const Lookup *lookup, const double *values, int64_t n, int32_t *cells)
{
    if (lookup->even)
        FORM(even_bins)(values, n, lookup->even, cells);
    else
        FORM(grid_bins)(lookup, values, n, cells);
}
