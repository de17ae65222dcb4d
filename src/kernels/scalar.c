/* Loops that no vector unit helps: levels, pooling of sorted scores, hulls, values next to quantiles. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* As calibrant.engines.cells.named_sums: write count, sum_y, sum_p, sum_pp, sum_py, with weights sum_w and sum_ww,
   and sum_wwuu of each bin, one after the other. */
static void name_sums(const double *sums, int64_t n_bins, int lanes, int weighted, double *out)
{
    for (int64_t b = 0; b < n_bins; b++, sums += 2 * lanes) {
        const double *other = sums, *event = sums + lanes;
        out[b] = other[0] + event[0];
        out[n_bins + b] = event[weighted ? 3 : 0];
        out[2 * n_bins + b] = other[1] + event[1];
        out[3 * n_bins + b] = other[2] + event[2];
        out[4 * n_bins + b] = event[1];
        for (int k = 3; weighted && k < 6; k++)
            out[(2 + k) * n_bins + b] = other[k] + event[k];
        if (!weighted) {
            const double squares = event[0] - 2 * event[1] + out[3 * n_bins + b];
            out[5 * n_bins + b] = squares > 0.0 ? squares : 0.0;
        }
    }
}

/* Squares of smaller means are rounded by more than sums are, below the smallest normal number. */
#define SMALLEST_MEAN 1e-140

/* As calibrant.engines.cells.levels_of: write the one prediction of each bin as far as sums tell, -1 without rows and
   NaN where predictions certainly differ; return whether some sums do not tell. */
static int find_levels(const double *sums, int64_t n_bins, int lanes, int weighted, double rounding, double *level)
{
    int unclear = 0;
    for (int64_t b = 0; b < n_bins; b++, sums += 2 * lanes) {
        const double *other = sums + lanes;
        const double count = sums[0] + other[0], first = sums[1] + other[1], second = sums[2] + other[2];
        const double weight = weighted ? sums[3] + other[3] : count;
        const int alone = !weighted && (count == 1.0 || (count > 0.0 && first == 0.0));
        const int differ = first > SMALLEST_MEAN * (weight > 1.0 ? weight : 1.0) &&
                           weight * second - first * first > rounding * (first * first);
        level[b] = alone ? first : differ ? (double)NAN : -1.0;
        unclear |= count > 0.0 && level[b] == -1.0;
    }
    return unclear;
}

/* Write all arrays of a table, the levels last; return whether some sums do not tell levels, which are then -1 where
   they are not known, and NaN there otherwise: without rows there is none. */
int table_of(const double *sums, int64_t n_bins, int lanes, int weighted, double rounding, double *out)
{
    double *level = out + (weighted ? 8 : 6) * n_bins;
    name_sums(sums, n_bins, lanes, weighted, out);
    const int unclear = find_levels(sums, n_bins, lanes, weighted, rounding, level);
    for (int64_t b = 0; !unclear && b < n_bins; b++)
        level[b] = level[b] == -1.0 ? (double)NAN : level[b];
    return unclear;
}

/* As calibrant.engines.cells.add_compensated, in place. */
void add_compensated(double *total, double *lost, const double *term, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double moved = term[i] - lost[i];
        const double sum = total[i] + moved;
        lost[i] = (sum - total[i]) - moved;
        total[i] = sum;
    }
}

/* Turn sorted keys, twice the bits of a score plus its label, into the bits of the distinct scores; count those. */
int64_t distinct_scores(uint64_t *keys, int64_t n, double *events, double *counts)
{
    int64_t last = -1;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = keys[i] >> 1, event = keys[i] & 1;
        if (last < 0 || bits != keys[last]) {
            keys[++last] = bits;
            events[last] = counts[last] = 0.0;
        }
        events[last] += (double)event;
        counts[last] += 1.0;
    }
    return last + 1;
}

/* Pool adjacent violators of such keys, and those of one mean; return how many blocks there are. Writes where each
   block begins, its rows, its events and the sum of its scores. */
int64_t pool(const uint64_t *keys, int64_t n, int64_t *first, double *weight, double *events, double *total)
{
    int64_t top = -1;
    for (int64_t i = 0; i < n;) {
        const int64_t start = i;
        const uint64_t bits = keys[i] >> 1;
        double happened = 0.0;
        for (; i < n && keys[i] >> 1 == bits; i++)
            happened += (double)(keys[i] & 1);
        top++;
        first[top] = start;
        weight[top] = (double)(i - start);
        events[top] = happened;
        total[top] = weight[top] * as_double(bits);
        while (top > 0 && events[top - 1] * weight[top] >= events[top] * weight[top - 1]) {
            top--;
            weight[top] += weight[top + 1];
            events[top] += events[top + 1];
            total[top] += total[top + 1];
        }
    }
    return top + 1;
}

/* Drop corners from the top of the hull until the tangent from (ax, ay) touches the topmost. */
static int64_t drop_corners(const double *x, const double *y, const int64_t *hull, int64_t top, double ax, double ay)
{
    while (top > 0) {
        const int64_t j = hull[top], k = hull[top - 1];
        if ((y[j] - ay) * (x[k] - ax) < (y[k] - ay) * (x[j] - ax))
            break;
        top--;
    }
    return top;
}

/* As calibrant.recalibrators.isotonic.tangent_slopes, which explains it. */
void tangent_slopes(const double *x, const double *y, int64_t n, int64_t *hull, double *slopes)
{
    int64_t top = -1;
    for (int64_t i = n - 1; i >= 0; i--) {
        top = drop_corners(x, y, hull, top, x[i], y[i]);
        hull[++top] = i;
    }
    double ax = -1.0, ay = -1.0;
    top = drop_corners(x, y, hull, top, ax, ay);
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = hull[top];
        const double bx = x[j], by = y[j];
        slopes[i] = (by - ay) / (bx - ax);
        if (i + 1 == n)
            break;
        const double nx = x[i + 1] - 1.0, ny = y[i + 1] - 1.0;
        if (j > i && (ny - ay) * (bx - ax) >= (by - ay) * (nx - ax))
            continue;
        while (top > 0 && hull[top] <= i)
            top--;
        top = drop_corners(x, y, hull, top, nx, ny);
        ax = nx;
        ay = ny;
    }
}

enum { LEAST_CELLS = 1 << 6, MOST_CELLS = 1 << 14 }; /* more would leave the near cache */
enum { VALUES_A_CELL = 8 }; /* to look through the cells then costs about as much as to sort what they list */
enum { BLOCK = 1 << 9, DIGIT = 11, DIGITS = 1 << DIGIT };

/* Cells of 2^shift keys, how many values each holds, and which of them are listed. */
typedef struct {
    int64_t range[2], n_cells;
    int shift;
    uint32_t counts[MOST_CELLS];
    uint8_t marked[MOST_CELLS];
} Grid;

/* The r-th quantile of n rows is the least value that as many rows do not exceed. */
static double quantile(int64_t n, int64_t r, int64_t n_bins)
{
    return (double)n * (double)r / (double)n_bins;
}

/* Lay a grid over the keys of these values and count them; return whether all values are from 0 to 1. */
static int count_keys(const Form *form, const void *values, enum Type type, size_t size, int64_t n, Grid *grid)
{
    uint32_t cells[BLOCK];
    if (!form->key_range(values, type, n, grid->range))
        return 0;
    for (grid->n_cells = LEAST_CELLS; grid->n_cells < MOST_CELLS && grid->n_cells < n / VALUES_A_CELL;)
        grid->n_cells *= 2;
    for (grid->shift = 0; (grid->range[1] - grid->range[0]) >> grid->shift >= grid->n_cells;)
        grid->shift++;
    memset(grid->counts, 0, (size_t)grid->n_cells * sizeof *grid->counts);
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t rest = n - start, block = rest < BLOCK ? rest : BLOCK;
        form->key_cells((const char *)values + (size_t)start * size, type, block, grid->range, grid->shift, cells);
        for (int64_t i = 0; i < block; i++)
            grid->counts[cells[i]]++;
    }
    return 1;
}

/* Mark each cell that holds a quantile, and the next on either side that hold anything; return how many values they hold. */
static int64_t mark_cells(Grid *grid, int64_t n, int64_t n_bins)
{
    int64_t up_to = 0, cut = 1, last = -1, listed = 0;
    int holds = 0;
    double next = n_bins > 1 ? quantile(n, cut, n_bins) : INFINITY;
    memset(grid->marked, 0, sizeof grid->marked);
    for (int64_t cell = 0; cell < grid->n_cells; cell++) {
        if (grid->counts[cell] == 0)
            continue;
        grid->marked[cell] = (uint8_t)holds; /* that before it does */
        up_to += grid->counts[cell];
        for (holds = 0; next <= (double)up_to; holds = 1)
            next = ++cut < n_bins ? quantile(n, cut, n_bins) : INFINITY;
        grid->marked[cell] |= (uint8_t)holds;
        if (holds && last >= 0)
            grid->marked[last] = 1;
        last = cell;
    }
    for (int64_t cell = 0; cell < grid->n_cells; cell++)
        listed += grid->marked[cell] ? grid->counts[cell] : 0;
    return listed;
}

#define VALUE float
#define TYPE F32
#define KEY int32_t
#define KEY_OF float_key
#define PASSES 3
#define NAME(name) name##_floats
#include "near_quantiles.h"

#define VALUE double
#define TYPE F64
#define KEY int64_t
#define KEY_OF double_key
#define PASSES 6
#define NAME(name) name##_doubles
#include "near_quantiles.h"

/* Write, for each line of values, what `calibrant.bins.NearQuantiles` holds: five arrays of n_bins - 1 numbers. */
int near_quantiles(const Form *form, const void *lines, enum Type type, int64_t n_lines, int64_t n, int64_t n_bins,
                   double *out)
{
    Grid *grid = malloc(sizeof *grid);
    int status = grid == NULL ? NO_MEMORY : FINE;
    for (int64_t k = 0; k < n_lines && status == FINE; k++, out += 5 * (n_bins - 1))
        status = type == F32 ? near_floats(form, (const float *)lines + k * n, n, n_bins - 1, grid, out)
                             : near_doubles(form, (const double *)lines + k * n, n, n_bins - 1, grid, out);
    free(grid);
    return status;
}
