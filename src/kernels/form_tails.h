/* The recursion of calibrant.stats.tails, which says why it is done so: probabilities of blocks of events at many
   event rates (nodes), and one bin's step. */

#ifndef CALIBRANT_FORM_TAILS_H
#define CALIBRANT_FORM_TAILS_H

#define TAIL_ROWS 4 /* cells of a tile, and vectors of nodes: its sums stay in registers */
#define TAIL_VECTORS 2
#define FADE_NODES 128
#define ROUNDING 1e-9 /* of tops that should not grow */

#endif

#undef TAIL_NODES
#ifdef __GNUC__
#define TAIL_NODES (TAIL_VECTORS * FORM_LANES)
typedef double FORM(Vector) __attribute__((vector_size(8 * FORM_LANES), aligned(8), may_alias));
#else
#define TAIL_NODES TAIL_VECTORS
typedef double FORM(Vector);
#endif

/* log(x) to 1 ulp for normal x > 0, without call or branch: x = 2^e m with m from sqrt(1/2) to sqrt(2), and the
   series of log m in f = (m - 1) / (m + 1), |f| < 0.172, whose rest is below 1e-17. */
static inline double FORM(log_of)(double x)
{
    uint64_t bits, exponent;
    memcpy(&bits, &x, sizeof bits);
    exponent = bits >> 52 | 0x4330000000000000; /* 2^52 and e + 1023 */
    bits = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
    double m, e;
    memcpy(&m, &bits, sizeof m);
    memcpy(&e, &exponent, sizeof e);
    e -= 4503599627370496.0 + 1023.0;
    const int large = m > 1.4142135623730951;
    m = large ? 0.5 * m : m;
    e = large ? e + 1.0 : e;
    const double f = (m - 1.0) / (m + 1.0), s = f * f, s2 = s * s, s4 = s2 * s2;
    const double low = (1.0 / 3 + s * (1.0 / 5)) + s2 * (1.0 / 7 + s * (1.0 / 9));
    const double high = (1.0 / 11 + s * (1.0 / 13)) + s2 * (1.0 / 15 + s * (1.0 / 17)) + s4 * (1.0 / 19 + s * (1.0 / 21));
    const double series = 2.0 * f * s * (low + s4 * high);
    return e * 0.693147180369123816490 + (2.0 * f + (series + e * 1.90821492927058770002e-10));
}

/* Write exp(at[i] tilt[m] + top[i] - scale[m]) (heavy[i] + light[i] exp(-|tilt[m]| length[i])) for blocks i and
   nodes m. Nearly all blocks have the same length. */
static void FORM(block_weights)(const Blocks *blocks, const double *tilt, const double *scale, int64_t n_nodes,
                                double *out)
{
    double fade[FADE_NODES];
    for (int64_t first = 0; first < n_nodes; first += FADE_NODES) {
        const int64_t rest = n_nodes - first, width = rest < FADE_NODES ? rest : FADE_NODES;
        for (int64_t i = 0; i < blocks->n; i++) {
            const double at = blocks->at[i], top = blocks->top[i], length = blocks->length[i];
            const double heavy = blocks->heavy[i], light = blocks->light[i];
            const double *t = tilt + first, *s = scale + first;
            double *row = out + i * blocks->stride + first;
            if (i == 0 || length != blocks->length[i - 1])
                for (int64_t m = 0; m < width; m++)
                    fade[m] = FORM(exp_below_zero)(-fabs(t[m]) * length);
            for (int64_t m = 0; m < width; m++) {
                const double exponent = at * t[m] + (top - s[m]);
                row[m] = FORM(exp_below_zero)(exponent < 700.0 ? exponent : 700.0) * (heavy + light * fade[m]);
            }
        }
    }
}

/* Add each row of `weight` to the row of `share` that `cells` names. */
static void FORM(add_rows)(const double *weight, int64_t n_rows, int64_t n_columns, const int64_t *cells,
                           double *share, int64_t n_cells)
{
    for (int64_t i = 0; i < n_rows; i++) {
        if (cells[i] < 0 || cells[i] >= n_cells)
            continue;
        double *to = share + cells[i] * n_columns;
        const double *from = weight + i * n_columns;
        for (int64_t m = 0; m < n_columns; m++)
            to[m] += from[m];
    }
}

/* Convolve `before` with the columns of `share`, for cells c .. c + 3 and a few nodes from m on.
   Only rows that hold anything are read. `padded` is `before` after as many zeros. */
static void FORM(convolve_tile)(const Tail *tail, const double *padded, int64_t c, int64_t m, double *mean)
{
    double sums[TAIL_ROWS][TAIL_NODES] = {{0}};
    const int64_t width = tail->n_nodes - m < TAIL_NODES ? tail->n_nodes - m : TAIL_NODES;
    const int64_t height = tail->n_cells - c < TAIL_ROWS ? tail->n_cells - c : TAIL_ROWS;
    const double *shifted = padded + tail->n_cells + c;
    int64_t n_rows = tail->n_rows;
    while (n_rows > 0 && tail->rows[n_rows - 1] >= c + height)
        n_rows--;
    if (width == TAIL_NODES) {
        FORM(Vector) own[TAIL_ROWS][TAIL_VECTORS];
        memset(own, 0, sizeof own);
        for (int64_t r = 0; r < n_rows; r++) {
            const int64_t i = tail->rows[r];
            const FORM(Vector) *share = (const FORM(Vector) *)(tail->share + i * tail->n_nodes + m);
            for (int j = 0; j < TAIL_ROWS; j++)
                for (int l = 0; l < TAIL_VECTORS; l++)
                    own[j][l] += shifted[j - i] * share[l];
        }
        memcpy(sums, own, sizeof own);
    } else {
        for (int64_t r = 0; r < n_rows; r++) {
            const int64_t i = tail->rows[r];
            const double *share = tail->share + i * tail->n_nodes + m;
            for (int j = 0; j < TAIL_ROWS; j++)
                for (int64_t l = 0; l < width; l++)
                    sums[j][l] += shifted[j - i] * share[l];
        }
    }
    for (int64_t j = 0; j < height; j++)
        memcpy(mean + (c + j) * tail->n_nodes + m, sums[j], (size_t)width * sizeof(double));
}

/* Raise `tops`, for cells c .. c + height - 1, to the top of the line between neighbouring nodes plus a parabola, over
   `n` pairs from node m on; those of negative height are left out. Return the highest of all. */
static double FORM(raise_tops)(const Tail *tail, const double *log_mean, int64_t c, int64_t height, int64_t m,
                               int64_t n, double *tops)
{
    const double *left = tail->left + m, *right = tail->right + m, *bulge = tail->bulge + m;
    double highest = -INFINITY, heights[TAIL_NODES];
    for (int64_t j = c; j < c + height; j++) {
        const double *row = log_mean + j * tail->n_nodes + m;
        for (int64_t k = 0; k < n; k++) {
            const double a = row[k] + left[k], b = row[k + 1] + right[k], h = bulge[k];
            double room = h - fabs(a - b) * 0.25;
            room = room > 0.0 ? room : 0.0;
            const double top = room * room / (h > 1e-300 ? h : 1e-300) + (a > b ? a : b);
            heights[k] = h < 0.0 ? -INFINITY : top;
        }
        if (tail->cap != NULL)
            for (int64_t k = 0; k < n; k++) {
                const double most = (row[k] > row[k + 1] ? row[k] : row[k + 1]) + tail->cap[m + k];
                heights[k] = most < heights[k] ? most : heights[k];
            }
        double best = -INFINITY;
        for (int64_t k = 0; k < n; k++)
            best = heights[k] > best ? heights[k] : best;
        tops[j] = best > tops[j] ? best : tops[j];
        highest = best > highest ? best : highest;
    }
    return highest;
}

/* Write log_mean for cells c .. c + height - 1 and one tile of nodes. */
static void FORM(log_mean_tile)(const Tail *tail, const double *padded, int64_t c, int64_t height, int64_t m,
                                double *log_mean)
{
    const int64_t n_nodes = tail->n_nodes, width = n_nodes - m < TAIL_NODES ? n_nodes - m : TAIL_NODES;
    FORM(convolve_tile)(tail, padded, c, m, log_mean);
    for (int64_t j = c; j < c + height; j++) {
        double *row = log_mean + j * n_nodes + m;
        if (tail->above != NULL)
            for (int64_t l = 0; l < width; l++)
                row[l] += padded[tail->n_cells] * tail->above[j * n_nodes + m + l];
        for (int64_t l = 0; l < width; l++) /* 1e-300 stands for 0: larger, hence allowed */
            row[l] = FORM(log_of)(row[l] > 1e-300 ? row[l] : 1e-300) + tail->log_scale[m + l];
    }
}

/* Whether a node of the tile is needed for something else than pairs. */
static int FORM(is_needed)(const Tail *tail, int64_t m)
{
    for (int64_t k = m; k < m + TAIL_NODES && k < tail->n_nodes; k++)
        if (tail->needed[k])
            return 1;
    return 0;
}

/* The step of one bin. W_{j-1} grows with c for left tails and falls for right ones, and cells are gone through such
   that no mean grows on the way: tiles of nodes where all tops were too low before are skipped, and the result is the
   same. `scratch` has room for two values for each node. */
static void FORM(tail_step)(const Tail *tail, const double *padded, double *scratch, double *log_mean, double *tops)
{
    const int64_t n_nodes = tail->n_nodes, n_tiles = (n_nodes + TAIL_NODES - 1) / TAIL_NODES;
    const int64_t n_runs = (tail->n_cells + TAIL_ROWS - 1) / TAIL_ROWS;
    double *known = scratch, *skipped = scratch + n_nodes;
    for (int64_t t = 0; t < n_tiles; t++) { /* of pairs whose left node is in a tile, the highest top so far */
        known[t] = -INFINITY;
        for (int64_t k = t * TAIL_NODES; k < (t + 1) * TAIL_NODES && k < n_nodes - 1; k++)
            known[t] = tail->bulge[k] >= 0.0 ? INFINITY : known[t];
    }
    for (int64_t c = 0; c < tail->n_cells; c++)
        tops[c] = -INFINITY;
    int64_t best = -1; /* the tile that held the highest top */
    for (int64_t r = 0; r < n_runs; r++) {
        const int64_t c = (tail->above == NULL ? n_runs - 1 - r : r) * TAIL_ROWS;
        const int64_t rest = tail->n_cells - c, height = rest < TAIL_ROWS ? rest : TAIL_ROWS;
        double least = -INFINITY, highest = -INFINITY;
        if (best >= 0) {
            const int64_t m = best * TAIL_NODES, width = n_nodes - m < TAIL_NODES ? n_nodes - m : TAIL_NODES;
            FORM(log_mean_tile)(tail, padded, c, height, m, log_mean);
            FORM(raise_tops)(tail, log_mean, c, height, m, width - 1, tops);
            least = tops[c];
            for (int64_t j = c + 1; j < c + height; j++)
                least = tops[j] < least ? tops[j] : least;
        }
        for (int64_t t = 0; t < n_tiles; t++) {
            /* pairs with a node in this tile: those of its own left nodes, and the last of the tile before */
            const double before = t > 0 ? known[t - 1] : -INFINITY, most = before > known[t] ? before : known[t];
            const int low = most == -INFINITY || most + ROUNDING < least;
            skipped[t] = low && t != best && !FORM(is_needed)(tail, t * TAIL_NODES);
            if (skipped[t] == 0.0 && t != best)
                FORM(log_mean_tile)(tail, padded, c, height, t * TAIL_NODES, log_mean);
        }
        best = -1;
        for (int64_t t = 0; t < n_tiles; t++) {
            const int64_t m = t * TAIL_NODES, width = n_nodes - m < TAIL_NODES ? n_nodes - m : TAIL_NODES;
            const int last = t + 1 == n_tiles, alone = !last && skipped[t + 1] != 0.0;
            if (skipped[t] != 0.0)
                continue;
            const double top = FORM(raise_tops)(tail, log_mean, c, height, m, width - (last || alone), tops);
            known[t] = alone ? known[t] : top; /* without the pair across the border nothing new is known */
            if (top > highest) {
                highest = top;
                best = t;
            }
        }
    }
}
