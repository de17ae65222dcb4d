/* Values added up in their cells. Parts are moved to their total, with compensation (Kahan), after a few thousand
   rows at most: neither the number of rows nor their order costs accuracy. */

#ifndef CALIBRANT_FORM_SUMS_H
#define CALIBRANT_FORM_SUMS_H

#ifdef __GNUC__
typedef double Line __attribute__((vector_size(32), may_alias)); /* parts are aligned to that */
#define ADD(at, a, b, c, d) (*(Line *)(at) += (Line){(a), (b), (c), (d)})

typedef double Pair __attribute__((vector_size(16), may_alias));
#define ADD_PAIR(at, a, b) (*(Pair *)(at) += (Pair){(a), (b)})
#else

#define ADD_PAIR(at, a, b) ((at)[0] += (a), (at)[1] += (b))
#define ADD(at, a, b, c, d) ((at)[0] += (a), (at)[1] += (b), (at)[2] += (c), (at)[3] += (d))
#endif

#define AHEAD 3
typedef struct { /* where the next block of predictions, labels and weights or groups begins */
    const char *data[AHEAD];
    ptrdiff_t stride[AHEAD];
} Ahead;

#endif

/* Move a run of the parts to their totals, and make it empty. */
static void FORM(settle)(Sums *sums, int64_t start, int64_t size)
{
    double *first = sums->parts + start, *totals = sums->totals + start, *lost = sums->lost + start;
    for (int copy = 1; copy < sums->copies; copy++) {
        double *other = first + copy * sums->n_cells * sums->lanes;
        for (int64_t i = 0; i < size; i++) {
            first[i] += other[i];
            other[i] = 0.0;
        }
    }
    for (int64_t i = 0; i < size; i++) {
        double moved = first[i] - lost[i];
        double total = totals[i] + moved;
        lost[i] = (total - totals[i]) - moved;
        totals[i] = total;
        first[i] = 0.0;
    }
}

/* Move the part of one cell of a large table without weights. */
static ONE_COPY void FORM(settle_cell)(Sums *sums, int64_t cell)
{
    double *total = sums->totals + 4 * cell, *part = sums->parts + 2 * cell, *lost = sums->lost + 2 * cell;
    total[0] += (double)sums->counts[cell]; /* whole numbers lose nothing */
    sums->counts[cell] = 0;
    for (int k = 0; k < 2; k++) {
        double moved = part[k] - lost[k];
        double sum = total[1 + k] + moved;
        lost[k] = (sum - total[1 + k]) - moved;
        total[1 + k] = sum;
        part[k] = 0.0;
    }
}

static void FORM(settle_all)(Sums *sums)
{
    if (sums->counts == NULL)
        FORM(settle)(sums, 0, sums->n_cells * sums->lanes);
    else
        for (int64_t cell = 0; cell < sums->n_cells; cell++)
            FORM(settle_cell)(sums, cell);
}

/* Ask for what comes after row i of a block: the same row of the next block. */
static inline void FORM(fetch)(const Ahead *ahead, int64_t i)
{
    for (int k = 0; k < AHEAD; k++)
        FETCH(ahead->data[k] + i * ahead->stride[k]);
}

/* Add 1, p and p^2 to the cell of each value, in the copies of the table in turn. */
static ONE_COPY void FORM(add)(const double *x, const int32_t *cells, int64_t n, Sums *sums, const Ahead *ahead)
{
    double *first = sums->parts;
    const int64_t copy = sums->copies > 1 ? 4 * sums->n_cells : 0;
    double *const second = first + copy, *const third = second + copy, *const fourth = third + copy;
    uint32_t at[BLOCK_VALUES];
    for (int64_t i = 0; i < n; i++)
        at[i] = 4 * (uint32_t)cells[i];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        FORM(fetch)(ahead, i);
        for (int64_t j = i; j < i + 8; j += 4) {
            ADD(first + at[j], 1.0, x[j], x[j] * x[j], 0.0);
            ADD(second + at[j + 1], 1.0, x[j + 1], x[j + 1] * x[j + 1], 0.0);
            ADD(third + at[j + 2], 1.0, x[j + 2], x[j + 2] * x[j + 2], 0.0);
            ADD(fourth + at[j + 3], 1.0, x[j + 3], x[j + 3] * x[j + 3], 0.0);
        }
    }
    for (; i < n; i++)
        ADD(first + i % 4 * copy + at[i], 1.0, x[i], x[i] * x[i], 0.0);
}

/* The same for a table that is too large for copies, or for moving all of it now and then: full cells are moved
   as they are met. */
static void FORM(add_large)(const double *x, const int32_t *cells, int64_t n, Sums *sums, const Ahead *ahead)
{
    double *parts = sums->parts;
    uint16_t *counts = sums->counts;
#define ADD_ROW(i)                                                  \
    {                                                               \
        const int64_t cell = cells[i];                              \
        const int count = counts[cell] + 1;                         \
        counts[cell] = (uint16_t)count;                             \
        ADD_PAIR(parts + 2 * cell, x[i], x[i] * x[i]);              \
        if (count & FULL) /* a power of two: the first that is full */ \
            FORM(settle_cell)(sums, cell);                           \
    }
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        FORM(fetch)(ahead, i);
        for (int64_t j = i; j < i + 8; j++)
            ADD_ROW(j)
    }
    for (; i < n; i++)
        ADD_ROW(i)
#undef ADD_ROW
}

/* Add 1, w p, w p^2, w, w^2 and w^2 (y - p)^2; `width` values share the weight of their row. */
static void FORM(add_weighted)(const double *x, const int32_t *cells, const double *weights, int64_t n,
                               int64_t width, Sums *sums, const Ahead *ahead)
{
    for (int64_t row = 0, i = 0; i < n; row++) {
        const double w = weights[row];
        if (row % 8 == 0)
            FORM(fetch)(ahead, row);
        for (const int64_t end = i + width; i < end; i++) {
            double *at = sums->parts + 8 * (int64_t)cells[i];
            double wx = w * x[i], residual = w * ((double)(cells[i] & 1) - x[i]);
            ADD(at, w != 0.0 ? 1.0 : 0.0, wx, wx * x[i], w);
            ADD(at + 4, w * w, residual * residual, 0.0, 0.0);
        }
    }
}

/* Move the full cells among these, where moving a whole large table for each block is too slow. */
static void FORM(settle_full)(Sums *sums, const int32_t *cells, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (int64_t)cells[i] * sums->lanes;
        if (sums->parts[at] >= (double)FULL)
            FORM(settle)(sums, at, sums->lanes);
    }
}

/* Keep the one prediction of a bin: -1 before the first; a second makes it NaN for good. */
static void FORM(note_levels)(const double *x, const int32_t *cells, const double *weights, int64_t n,
                              int64_t width, double *level)
{
    for (int64_t i = 0; i < n; i++) {
        if (weights != NULL && weights[i / width] == 0.0)
            continue;
        double *known = level + (cells[i] >> 1);
        if ((*known < x[i]) | (*known > x[i]))
            *known = *known < 0.0 ? x[i] : (double)NAN;
    }
}
