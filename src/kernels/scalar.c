/* Loops that no vector unit helps: levels, pooling of sorted scores, hulls, sorting, quantiles of sorted values. */

#include <math.h>
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
        const int differ = weight * second - first * first > rounding * (first * first);
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

/* Sort values from 0 to 1 by their bits, which have their order, eleven at a time: where vectors are slow to compress,
   several times as fast as sorting by comparison. `keys` has room for 2 n. Return whether all are from 0 to 1. */
#define DIGIT 11
#define DIGITS (1 << DIGIT)
#define SORT_BY_BITS(name, T, U, PASSES)                                                     \
    static int name(T *values, int64_t n, U *keys)                                           \
    {                                                                                        \
        uint32_t counts[PASSES][DIGITS];                                                     \
        int wrong = 0;                                                                       \
        memset(counts, 0, sizeof counts);                                                    \
        for (int64_t i = 0; i < n; i++) {                                                    \
            const T value = values[i] + 0; /* no negative zero */                            \
            wrong |= !((value >= 0) & (value <= 1));                                         \
            memcpy(keys + i, &value, sizeof value);                                          \
            for (int pass = 0; pass < PASSES; pass++)                                        \
                counts[pass][keys[i] >> (DIGIT * pass) & (DIGITS - 1)]++;                    \
        }                                                                                    \
        if (wrong)                                                                           \
            return 0;                                                                        \
        U *from = keys, *to = keys + n;                                                      \
        for (int pass = 0; pass < PASSES; pass++) {                                          \
            uint32_t *places = counts[pass], before = 0;                                     \
            if (places[from[0] >> (DIGIT * pass) & (DIGITS - 1)] == n)                       \
                continue; /* all have the same digit */                                      \
            for (int digit = 0; digit < DIGITS; digit++) {                                   \
                const uint32_t own = places[digit];                                          \
                places[digit] = before;                                                      \
                before += own;                                                               \
            }                                                                                \
            for (int64_t i = 0; i < n; i++)                                                  \
                to[places[from[i] >> (DIGIT * pass) & (DIGITS - 1)]++] = from[i];            \
            U *other = from;                                                                 \
            from = to;                                                                       \
            to = other;                                                                      \
        }                                                                                    \
        memcpy(values, from, (size_t)n * sizeof *values);                                    \
        return 1;                                                                            \
    }
SORT_BY_BITS(sort_floats, float, uint32_t, 3)
SORT_BY_BITS(sort_doubles, double, uint64_t, 6)

int sort_rows(void *rows, enum Type type, int64_t n_rows, int64_t n, void *keys)
{
    for (int64_t i = 0; i < n_rows && n > 0; i++)
        if (!(type == F32 ? sort_floats((float *)rows + i * n, n, keys)
                          : sort_doubles((double *)rows + i * n, n, keys)))
            return BAD_PROBABILITY;
    return FINE;
}

static double value_at(const void *values, enum Type type, int64_t i)
{
    return type == F32 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

/* How many sorted values are below x, or not above it. */
static int64_t count_below(const void *ordered, enum Type type, int64_t n, double x, int or_equal)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const double value = value_at(ordered, type, middle);
        if (or_equal ? value <= x : value < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Write the values of a sorted column that hold a quantile, and their neighbours; return how many there are, at most
   3 n_bins. The mass of a value is the number of rows above the one before it and not above itself, so
   EqualMass(n_bins) makes the same edges from these as from all. */
int64_t near_quantiles(const void *ordered, enum Type type, int64_t n, int64_t n_bins, double *values,
                       double *mass)
{
    int64_t found = 0, below = 0;
    for (int64_t cut = 1; cut <= n_bins; cut++) {
        double exact = (double)n * (double)cut / (double)n_bins;
        int64_t place = (int64_t)exact;
        place += (double)place < exact ? 1 : 0;
        place = (place < 1 ? 1 : place > n ? n : place) - 1;
        const double quantile = value_at(ordered, type, place);
        const int64_t near[3] = {count_below(ordered, type, n, quantile, 0) - 1, place,
                                 count_below(ordered, type, n, quantile, 1)};
        for (int j = 0; j < 3; j++) {
            if (near[j] < 0 || near[j] >= n)
                continue;
            const double value = value_at(ordered, type, near[j]);
            if (found > 0 && value <= values[found - 1])
                continue;
            const int64_t above = count_below(ordered, type, n, value, 1);
            values[found] = value;
            mass[found] = (double)(above - below);
            below = above;
            found++;
        }
    }
    return found;
}
