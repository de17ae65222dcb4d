/* The passes that count: one prediction of each row, or those of all classes; and what each row adds to an error. */

static Ahead FORM(ahead_of)(const Rows *rows, int64_t start)
{
    const Values *other = rows->groups.data != NULL ? &rows->groups : &rows->labels;
    if (rows->weights.data != NULL)
        other = &rows->weights;
    const Values *values[AHEAD] = {&rows->probs, &rows->labels, other};
    Ahead ahead;
    for (int k = 0; k < AHEAD; k++) {
        ahead.data[k] = values[k]->data + start * values[k]->stride;
        ahead.stride[k] = values[k]->stride;
    }
    return ahead;
}

/* Check and add up the one column, or the largest value, of each row; or note levels. */
static int FORM(count_column)(const Rows *rows, const Lookup *lookup, Sums *sums)
{
    double x[BLOCK_ROWS], weights[BLOCK_ROWS];
    int32_t cells[BLOCK_ROWS], groups[BLOCK_ROWS], tops[BLOCK_ROWS];
    const Values *probs = &rows->probs, *labels = &rows->labels;
    const int weighted = rows->weights.data != NULL, small = sums->small;
    int64_t since = 0;
    for (int64_t start = 0; start < probs->n_rows; start += BLOCK_ROWS) {
        const int64_t left = probs->n_rows - start, n = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        if (!FORM(read_codes)(labels, start, n, 0, rows->n_classes, cells))
            return BAD_LABEL;
        if (probs->n_columns == 0) {
            const char *from = probs->data + start * probs->stride;
            if (!FORM(read_probs)(from, probs->stride, probs->type, n, x))
                return BAD_PROBABILITY;
        } else {
            if (!FORM(tops_of)(probs, start, n, rows->are_logits, sums->row, tops, x))
                return BAD_PROBABILITY;
            for (int64_t i = 0; i < n; i++)
                cells[i] = cells[i] == tops[i] ? 1 : 0;
        }
        FORM(bins)(lookup, x, n, cells);
        if (rows->groups.data != NULL) {
            if (!FORM(read_codes)(&rows->groups, start, n, rows->least, rows->n_groups, groups))
                return BAD_GROUP;
            for (int64_t i = 0; i < n; i++)
                cells[i] += 2 * lookup->n_bins * groups[i];
        }
        if (weighted)
            FORM(read_weights)(&rows->weights, start, n, weights);
        if (sums->level != NULL) {
            FORM(note_levels)(x, cells, weighted ? weights : NULL, n, 1, sums->level);
            continue;
        }
        const Ahead ahead = FORM(ahead_of)(rows, start + n);
        if (weighted) {
            FORM(add_weighted)(x, cells, weights, n, 1, sums, &ahead);
        } else if (!small) {
            FORM(add_large)(x, cells, n, sums, &ahead);
        } else {
            FORM(add)(x, cells, n, sums, &ahead);
        }
        since += n;
        if (!small && weighted) {
            FORM(settle_full)(sums, cells, n);
        } else if (small && since >= ROWS_OF_A_PART) {
            FORM(settle_all)(sums);
            since = 0;
        }
    }
    FORM(settle_all)(sums);
    return FINE;
}

/* Read some rows of a tile of columns: their values, and cells 2 bin + event among the bins of all columns. */
static int FORM(read_tile)(const Rows *rows, const Lookup *lookup, int64_t start, int64_t n, int64_t left,
                           int64_t width, const int32_t *codes, double *x, int32_t *cells)
{
    const Values *probs = &rows->probs;
    for (int64_t i = 0; i < n; i++) {
        const char *from = probs->data + (start + i) * probs->stride + left * probs->column_stride;
        int32_t *line = cells + i * width;
        if (!FORM(read_probs)(from, probs->column_stride, probs->type, width, x + i * width))
            return BAD_PROBABILITY;
        for (int64_t k = 0; k < width; k++)
            line[k] = 2 * (int32_t)lookup->shift[left + k];
        int64_t event = codes[i] - rows->first - left;
        if (event >= 0 && event < width)
            line[event] += 1;
        if (lookup->n_grids > 1)
            FORM(column_bins)(lookup, left, x + i * width, width, line);
    }
    if (lookup->n_grids == 1)
        FORM(bins)(lookup, x, n * width, cells);
    return FINE;
}

/* Sums of the predictions in the first bin that are of no event, column by column, and the others of those rows. */
typedef struct {
    double *p, *pp, *others;
    int64_t rows;
} FORM(Low);

static void FORM(settle_low)(FORM(Low) *low, const Lookup *lookup, int64_t n_columns, double *parts)
{
    for (int64_t k = 0; k < n_columns; k++) {
        ADD(parts + 8 * lookup->shift[k], (double)low->rows - low->others[k], low->p[k], low->pp[k], 0.0);
        low->p[k] = low->pp[k] = low->others[k] = 0.0;
    }
    low->rows = 0;
}

/* Of many classes, most predictions lie in the first bin: add these up in vectors, and the few others one by one.
   Return how many others there are, or -1 where a value is not valid. */
static int64_t FORM(add_low)(const Rows *rows, const Lookup *lookup, int64_t start, int64_t n, const int32_t *codes,
                             FORM(Low) *low, Sums *sums)
{
    double x[TILE_COLUMNS], other[BLOCK_VALUES];
    int32_t cells[BLOCK_VALUES];
    const Values *probs = &rows->probs;
    const Ahead nothing = {{probs->data, probs->data, probs->data}, {0, 0, 0}};
    const double high = rint(0x1p32 / lookup->n_bins) / 0x1p32; /* as in even_bins */
    const double inner = lookup->even ? high + (1.0 - lookup->n_bins * high) / lookup->n_bins : lookup->edges[0];
    const double edge = inner < 1.0 ? inner : 1.0; /* of one bin it is infinite */
    int64_t found = 0, total = 0;
    for (int64_t i = start; i < start + n; i++) {
        const int64_t event = codes[i - start] - rows->first;
        for (int64_t left = 0; left < probs->n_columns; left += TILE_COLUMNS) {
            const int64_t rest = probs->n_columns - left, width = rest < TILE_COLUMNS ? rest : TILE_COLUMNS;
            const char *from = probs->data + i * probs->stride + left * probs->column_stride;
            if (!FORM(read_probs)(from, probs->column_stride, probs->type, width, x))
                return -1;
            for (int64_t first = 0; first < width; first += LOW_COLUMNS) {
                const int64_t size = width - first < LOW_COLUMNS ? width - first : LOW_COLUMNS;
                const int64_t column = left + first, own = event - column;
                double *p = low->p + column, *pp = low->pp + column, *values = x + first;
                const double happened = own >= 0 && own < size ? values[own] : -1.0;
                if (happened >= 0.0)
                    values[own] = INFINITY; /* among the others */
                int64_t some = 0;
                for (int64_t k = 0; k < size; k++) {
                    const double value = values[k] <= edge ? values[k] : 0.0;
                    some |= values[k] <= edge ? 0 : 1;
                    p[k] += value;
                    pp[k] += value * value;
                }
                for (int64_t k = 0; some && k < size; k++)
                    if (values[k] > edge) {
                        other[found] = k == own ? happened : values[k];
                        cells[found++] = 2 * (int32_t)lookup->shift[column + k] + (k == own);
                        low->others[column + k] += 1.0;
                    }
            }
            if (found > BLOCK_VALUES - TILE_COLUMNS || (i + 1 == start + n && left + width == probs->n_columns)) {
                FORM(bins)(lookup, other, found, cells);
                FORM(add)(other, cells, found, sums, &nothing);
                total += found;
                found = 0;
            }
        }
    }
    low->rows += n;
    return total;
}

/* Check and add up all columns of each row, or note levels. Some rows of some columns are a block, so that the
   cells of a block stay in the nearest cache as well. */
static int FORM(count_classes)(const Rows *rows, const Lookup *lookup, Sums *sums)
{
    double x[BLOCK_VALUES], weights[BLOCK_VALUES];
    int32_t cells[BLOCK_VALUES], codes[BLOCK_VALUES], groups[BLOCK_VALUES];
    const int64_t n_columns = rows->probs.n_columns;
    const int64_t tile = n_columns < TILE_COLUMNS ? n_columns : TILE_COLUMNS, step = BLOCK_VALUES / tile;
    const int weighted = rows->weights.data != NULL, grouped = rows->groups.data != NULL;
    const int32_t group_cells = (int32_t)(sums->n_cells / rows->n_groups);
    const int small = sums->small;
    const Ahead nothing = {{rows->probs.data, rows->labels.data, rows->labels.data}, {0, 0, 0}};
    FORM(Low) low = {sums->row, sums->row + n_columns, sums->row + 2 * n_columns, 0};
    const int can_be_low = n_columns >= LOW_COLUMNS && lookup->n_grids == 1 && small && !weighted && !grouped &&
                           sums->level == NULL;
    int is_low = can_be_low;
    int64_t since = 0;
    for (int64_t start = 0; start < rows->probs.n_rows; start += step) {
        const int64_t rest = rows->probs.n_rows - start, n = rest < step ? rest : step;
        if (!FORM(read_codes)(&rows->labels, start, n, 0, rows->n_classes, codes))
            return BAD_LABEL;
        if (weighted)
            FORM(read_weights)(&rows->weights, start, n, weights);
        int64_t from = 0;
        if (is_low) {
            const int64_t others = FORM(add_low)(rows, lookup, start, n, codes, &low, sums);
            if (others < 0)
                return BAD_PROBABILITY;
            is_low = LOW_SHARE * others <= n * n_columns;
            from = n_columns; /* of these rows nothing is left */
            if (!is_low)
                FORM(settle_low)(&low, lookup, n_columns, sums->parts);
        }
        if (grouped && !FORM(read_codes)(&rows->groups, start, n, rows->least, rows->n_groups, groups))
            return BAD_GROUP;
        for (int64_t left = from; left < n_columns; left += tile) {
            const int64_t width = n_columns - left < tile ? n_columns - left : tile;
            if (FORM(read_tile)(rows, lookup, start, n, left, width, codes, x, cells) != FINE)
                return BAD_PROBABILITY;
            for (int64_t i = 0; grouped && i < n; i++)
                for (int64_t k = i * width; k < (i + 1) * width; k++)
                    cells[k] += group_cells * groups[i];
            if (sums->level != NULL)
                FORM(note_levels)(x, cells, weighted ? weights : NULL, n * width, width, sums->level);
            else if (weighted)
                FORM(add_weighted)(x, cells, weights, n * width, width, sums, &nothing);
            else if (!small)
                FORM(add_large)(x, cells, n * width, sums, &nothing);
            else
                FORM(add)(x, cells, n * width, sums, &nothing);
            if (!small && weighted && sums->level == NULL)
                FORM(settle_full)(sums, cells, n * width);
        }
        since += n;
        if (small && since >= ROWS_OF_A_PART) {
            FORM(settle_low)(&low, lookup, low.rows > 0 ? n_columns : 0, sums->parts);
            FORM(settle_all)(sums);
            is_low = can_be_low;
            since = 0;
        }
    }
    FORM(settle_low)(&low, lookup, low.rows > 0 ? n_columns : 0, sums->parts);
    FORM(settle_all)(sums);
    return FINE;
}

/* Check all columns of each row and sum what the row adds to an error; see calibrant._influences. */
static int FORM(sum_influences)(const Rows *rows, const Lookup *lookup, const Influence *influence)
{
    double x[BLOCK_VALUES], weights[BLOCK_VALUES], a[BLOCK_VALUES], m[BLOCK_VALUES];
    int32_t cells[BLOCK_VALUES], codes[BLOCK_VALUES];
    const int64_t n_columns = rows->probs.n_columns;
    const int64_t tile = n_columns < TILE_COLUMNS ? n_columns : TILE_COLUMNS, step = BLOCK_VALUES / tile;
    double *sums = influence->sums;
    for (int64_t start = 0; start < rows->probs.n_rows; start += step) {
        const int64_t rest = rows->probs.n_rows - start, n = rest < step ? rest : step;
        if (!FORM(read_codes)(&rows->labels, start, n, 0, rows->n_classes, codes))
            return BAD_LABEL;
        if (rows->weights.data != NULL)
            FORM(read_weights)(&rows->weights, start, n, weights);
        memset(a, 0, sizeof a);
        memset(m, 0, sizeof m);
        for (int64_t left = 0; left < n_columns; left += tile) {
            const int64_t width = n_columns - left < tile ? n_columns - left : tile;
            if (FORM(read_tile)(rows, lookup, start, n, left, width, codes, x, cells) != FINE)
                return BAD_PROBABILITY;
            for (int64_t i = 0; i < n; i++) {
                double first = 0.0, second = 0.0;
                for (int64_t k = i * width; k < (i + 1) * width; k++) {
                    first += influence->slope[cells[k] >> 1] * ((double)(cells[k] & 1) - x[k]);
                    second += influence->offset[cells[k] >> 1];
                }
                a[i] += first;
                m[i] += second;
            }
        }
        for (int64_t i = 0; i < n; i++) {
            double w = rows->weights.data == NULL ? 1.0 : weights[i] / influence->mean_weight;
            double wa = w * (a[i] - influence->mean_a), wm = w * (m[i] - influence->mean_m);
            double square = (wa - wm) * (wa - wm);
            sums[0] += w;
            sums[1] += wa;
            sums[2] += wa * wa;
            sums[3] += wa * wm;
            sums[4] += wm * wm;
            sums[5] += square * square;
        }
    }
    return FINE;
}
