/* What the loops read and write: plain C, nothing of Python.

   The loops of form.h are compiled once for each kind of vector unit, a *form*; forms.c lists them. All forms
   do the same additions in the same order, so they give the same bits. */

#ifndef CALIBRANT_ROWS_H
#define CALIBRANT_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum Status { FINE = 0, BAD_PROBABILITY = 1, BAD_LABEL = 2, BAD_GROUP = 3, NO_MEMORY = 4 };

enum Type { F32, F64, I8, I16, I32, I64, U8, U16, U32, U64 };

/* Values of one type, at equal steps of bytes; those of a table have steps between columns as well. */
typedef struct {
    const char *data;
    ptrdiff_t stride;
    ptrdiff_t column_stride;
    int64_t n_rows;
    int64_t n_columns; /* 0 for a single column */
    enum Type type;
} Values;

/* The key of a number: its bits, as a signed integer. Keys have the order of numbers from 0 to 1, whose keys are from
   0 to that of 1; NaN and what is above 1 have larger ones, and negative numbers negative ones. */
static inline int32_t float_key(float value)
{
    int32_t key;
    value += 0; /* no negative zero */
    memcpy(&key, &value, sizeof key);
    return key;
}

static inline int64_t double_key(double value)
{
    int64_t key;
    value += 0;
    memcpy(&key, &value, sizeof key);
    return key;
}

/* Predictions with their labels; weights and groups may be absent (data is NULL). */
typedef struct {
    Values probs;
    Values labels;
    Values weights;
    Values groups;
    uint64_t least; /* the code of the first group */
    int32_t n_groups;
    int32_t n_classes;
    int32_t first; /* the class of the first column */
    int are_logits;
} Rows;

/* The tables of calibrant.engines.cells.Lookup. */
typedef struct {
    int32_t even;
    const double *edges;
    const int64_t *grids;
    const double *scales;
    const int64_t *shift;
    int64_t n_grids;
    int64_t grid_size;
    int32_t steps;
    int32_t n_bins;
} Lookup;

/* Scratch buffers of a count, and where its results go. Cell 2 b + e holds the rows of bin b whose event is e,
   in `lanes` sums: of 1, p, p^2 and nothing, or with weights of 1, w p, w p^2, w, w^2, w^2 (y - p)^2.
   There are several copies of `parts`, taken in turn, so that equal predictions need not wait for each other. A large
   table without weights has parts of p and p^2 alone, and small counts: half the memory, of which more stays near. */
typedef struct {
    double *parts;
    uint16_t *counts; /* NULL, or those of a large table without weights */
    double *totals;
    double *lost;
    int64_t n_cells;
    int lanes;
    int copies;
    int small; /* whether all parts are moved at once, now and then */
    double *level; /* NULL, or the one prediction of each bin, to be noted instead of sums */
    double *row;   /* as long as three rows of a table, and 0 */
} Sums;

typedef struct {
    const double *slope;
    const double *offset;
    double mean_a;
    double mean_m;
    double mean_weight;
    double *sums;
} Influence;

/* Blocks of events, for the tails of a bin's statistic. */
typedef struct {
    const double *at, *top, *heavy, *light, *length;
    int64_t n;
    int64_t stride; /* of what is written for each block */
} Blocks;

/* The law of a bin's statistic at nodes, and what is added to its logarithm between neighbours. */
typedef struct {
    const double *share;     /* (n_cells, n_nodes) */
    const double *log_scale; /* (n_nodes) */
    const double *above;     /* NULL, or like share */
    const int64_t *rows;     /* which rows of share hold anything, in order */
    const double *left, *right, *bulge;
    const double *cap;       /* NULL, or the most that is added between two nodes */
    const uint8_t *needed; /* nodes whose mean is always written */
    int64_t n_rows;
    int64_t n_cells;
    int64_t n_nodes;
} Tail;

/* What a form offers. */
typedef struct {
    const char *name;
    int (*count_column)(const Rows *, const Lookup *, Sums *);
    int (*count_classes)(const Rows *, const Lookup *, Sums *);
    int (*sum_influences)(const Rows *, const Lookup *, const Influence *);
    int (*top_values)(const Values *, int are_logits, double *scratch, void *out, enum Type out_type);
    int (*transpose)(const Values *, void *out, int64_t out_stride);
    int (*count_cells)(const Values *, uint32_t *counts, int64_t n_cells);
    int64_t (*pick_cells)(const Values *, const uint8_t *marked, int64_t n_cells, double *out, int64_t size);
    int (*key_range)(const void *values, enum Type type, int64_t n, int64_t range[2]);
    void (*key_cells)(const void *values, enum Type type, int64_t n, const int64_t range[2], int shift, uint32_t *cells);
    void (*logistic_sums)(const double *first, const double *second, const double *events, int64_t n,
                          const double *theta, double *out);
    int64_t (*hash_rows)(const Values *, const int64_t *codes, const uint64_t *factors, const uint64_t mixers[2],
                         uint64_t bound, uint64_t *out, uint64_t *checksum);
    void (*exps)(double *values, int64_t n);
    void (*even_bins)(const double *values, int64_t n, int32_t n_bins, int32_t *cells);
    void (*block_weights)(const Blocks *, const double *tilt, const double *scale, int64_t n_nodes, double *out);
    void (*add_rows)(const double *weight, int64_t n_rows, int64_t n_columns, const int64_t *cells, double *share,
                     int64_t n_cells);
    void (*tail_step)(const Tail *, const double *padded, double *scratch, double *log_mean, double *tops);
} Form;

extern const Form *const forms[]; /* those of this build, the plainest first; NULL ends them */
int runs_here(const Form *form);

/* scalar.c */
void add_compensated(double *total, double *lost, const double *term, int64_t n);
int table_of(const double *sums, int64_t n_bins, int lanes, int weighted, double rounding, double *out);
int64_t distinct_scores(uint64_t *keys, int64_t n, double *events, double *counts);
int64_t pool(const uint64_t *keys, int64_t n, int64_t *first, double *weight, double *events, double *total);
void tangent_slopes(const double *x, const double *y, int64_t n, int64_t *hull, double *slopes);
int near_quantiles(const Form *form, const void *lines, enum Type type, int64_t n_lines, int64_t n, int64_t n_bins,
                   double *out);

#endif
