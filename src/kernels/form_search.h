/* The passes that look for quantiles. */

/* Write the largest prediction of each row. */
static int FORM(top_values)(const Values *probs, int are_logits, double *scratch, void *out, enum Type out_type)
{
    double x[BLOCK_ROWS];
    int32_t tops[BLOCK_ROWS];
    for (int64_t start = 0; start < probs->n_rows; start += BLOCK_ROWS) {
        const int64_t rest = probs->n_rows - start, n = rest < BLOCK_ROWS ? rest : BLOCK_ROWS;
        if (!FORM(tops_of)(probs, start, n, are_logits, scratch, tops, x))
            return BAD_PROBABILITY;
        for (int64_t i = 0; out_type == F32 && i < n; i++)
            ((float *)out)[start + i] = (float)x[i];
        if (out_type == F64)
            memcpy((double *)out + start, x, (size_t)n * sizeof *x);
    }
    return FINE;
}

#ifndef TILE_ROWS
#define TILE_ROWS 64
#endif

/* Write the columns as rows, tile by tile, and check them. */
static int FORM(transpose)(const Values *probs, void *out, int64_t out_stride)
{
    int64_t wrong = 0;
#define COLUMNS(T)                                                                                       \
    for (int64_t start = 0; start < probs->n_rows; start += TILE_ROWS) {                                 \
        const int64_t rest = probs->n_rows - start, n = rest < TILE_ROWS ? rest : TILE_ROWS;             \
        for (int64_t k = 0; k < probs->n_columns; k++) {                                                 \
            const char *from = probs->data + start * probs->stride + k * probs->column_stride;           \
            T *line = (T *)out + k * out_stride + start;                                                 \
            FOR_VALUES(T, from, probs->stride, n, wrong |= ((value >= 0) & (value <= 1)) ? 0 : 1; line[i] = value;) \
        }                                                                                                \
    }
    if (probs->type == F32) {
        COLUMNS(float)
    } else {
        COLUMNS(double)
    }
#undef COLUMNS
    return wrong ? BAD_PROBABILITY : FINE;
}

/* Write the cell of each value in a grid of `scale` cells, a power of two, and one more for 1.0. */
static int FORM(grid_cells)(const Values *probs, int64_t start, int64_t n, double scale, double *x, int32_t *cells)
{
    int fine = FORM(read_probs)(probs->data + start * probs->stride, probs->stride, probs->type, n, x);
    for (int64_t i = 0; i < n; i++)
        cells[i] = (int32_t)(x[i] * scale);
    return fine;
}

/* Check the values and count them in cells. */
static int FORM(count_cells)(const Values *probs, uint32_t *counts, int64_t n_cells)
{
    double x[BLOCK_VALUES];
    int32_t cells[BLOCK_VALUES];
    for (int64_t start = 0; start < probs->n_rows; start += BLOCK_VALUES) {
        const int64_t rest = probs->n_rows - start, n = rest < BLOCK_VALUES ? rest : BLOCK_VALUES;
        if (!FORM(grid_cells)(probs, start, n, (double)(n_cells - 1), x, cells))
            return BAD_PROBABILITY;
        const char *ahead = probs->data + (start + n) * probs->stride;
        for (int64_t i = 0; i < n; i++) {
            if (i % 8 == 0)
                FETCH(ahead + i * probs->stride);
            counts[cells[i]] += 1;
        }
    }
    return FINE;
}

/* Write the values that lie in marked cells, no more than there is room for; return how many there are. */
static int64_t FORM(pick_cells)(const Values *probs, const uint8_t *marked, int64_t n_cells, double *out,
                                int64_t size)
{
    double x[BLOCK_VALUES];
    int32_t cells[BLOCK_VALUES];
    int64_t found = 0;
    for (int64_t start = 0; start < probs->n_rows; start += BLOCK_VALUES) {
        const int64_t rest = probs->n_rows - start, n = rest < BLOCK_VALUES ? rest : BLOCK_VALUES;
        FORM(grid_cells)(probs, start, n, (double)(n_cells - 1), x, cells);
        const char *ahead = probs->data + (start + n) * probs->stride;
        for (int64_t first = 0; first < n; first += 8) {
            const int64_t end = first + 8 < n ? first + 8 : n;
            int some = 0;
            FETCH(ahead + first * probs->stride);
            for (int64_t i = first; i < end; i++)
                some |= marked[cells[i]];
            for (int64_t i = first; some && i < end; i++)
                if (marked[cells[i]]) {
                    if (found < size)
                        out[found] = x[i];
                    found++;
                }
        }
    }
    return found;
}

/* Find the keys of the least positive and of the largest value, for near_quantiles; return whether all are from 0 to 1. */
static int FORM(key_range)(const void *values, enum Type type, int64_t n, int64_t range[2])
{
#define RANGE(T, K, KEY_OF)                                                              \
    const K one = KEY_OF(1);                                                             \
    K lowest = 0, least = one, most = 0;                                                 \
    for (int64_t i = 0; i < n; i++) {                                                    \
        const K key = KEY_OF(((const T *)values)[i]), positive = key > 0 ? key : one;    \
        lowest = key < lowest ? key : lowest;                                            \
        least = positive < least ? positive : least;                                     \
        most = key > most ? key : most;                                                  \
    }                                                                                    \
    range[0] = least < most ? least : most;                                              \
    range[1] = most;                                                                     \
    return lowest == 0 && most <= one;
    if (type == F32) {
        RANGE(float, int32_t, float_key)
    }
    RANGE(double, int64_t, double_key)
#undef RANGE
}

/* Find cells of 2^shift keys, the first from the least key on; those below share it, and those above the largest its own. */
static void FORM(key_cells)(const void *values, enum Type type, int64_t n, const int64_t range[2], int shift,
                            uint32_t *cells)
{
#define CELLS(T, K, KEY_OF)                                                              \
    const K least = (K)range[0], most = (K)range[1];                                     \
    for (int64_t i = 0; i < n; i++) {                                                    \
        const K key = KEY_OF(((const T *)values)[i]), above = key > least ? key : least; \
        cells[i] = (uint32_t)(((above < most ? above : most) - least) >> shift);         \
    }
    if (type == F32) {
        CELLS(float, int32_t, float_key)
    } else {
        CELLS(double, int64_t, double_key)
    }
#undef CELLS
}
