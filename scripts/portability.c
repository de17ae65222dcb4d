/* Runs the loops in every form on rows made up here, and prints a hash of the bits of each result; see portability. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

enum { N = 20011, K = 37, BINS = 15, GROUPS = 300, NODES = 21, CELLS = 65, BLOCKS = 40 };

static double probs[N], weights[N], events[N], exponents[N], table[N / 10 * K];
static int64_t labels[N], classes[N], groups[N], shift[K], order[N];
static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static void show(const char *form, const char *what, const void *data, size_t size)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    printf("%s %s %016llx\n", form, what, (unsigned long long)sum);
}

static Values column_of(const void *data, enum Type type)
{
    return (Values){data, 8, 0, N, 0, type};
}

/* Count rows with all that they may have, in cells of `columns` columns. */
static void count(const Form *form, const char *what, Rows rows, int columns)
{
    const int lanes = rows.weights.data == NULL ? 4 : 8, by_class = columns > 1;
    const int64_t n_cells = 2 * BINS * columns * rows.n_groups, size = n_cells * lanes;
    const int copies = !by_class && lanes == 4 && n_cells <= 2 * BINS ? 4 : 1;
    double *parts = aligned_alloc(64, (size_t)(copies * size + 7) / 8 * 8 * sizeof(double));
    double *rest = calloc((size_t)(2 * size + 3 * K), sizeof(double));
    if (parts == NULL || rest == NULL)
        abort();
    memset(parts, 0, (size_t)(copies * size) * sizeof *parts);
    const Lookup lookup = {.even = BINS, .shift = shift, .n_grids = 1, .n_bins = BINS};
    static uint16_t counts[2 * BINS * GROUPS];
    const int small = by_class || n_cells <= 512;
    Sums sums = {.parts = parts, .totals = rest, .lost = rest + size, .n_cells = n_cells, .lanes = lanes,
                 .copies = copies, .small = small, .row = rest + 2 * size};
    sums.counts = lanes == 4 && !small ? counts : NULL;
    if ((by_class ? form->count_classes : form->count_column)(&rows, &lookup, &sums) != FINE)
        abort();
    show(form->name, what, sums.totals, (size_t)size * sizeof(double));
    free(parts);
    free(rest);
}

static void count_all(const Form *form)
{
    const Values happened = column_of(labels, I64), weight = column_of(weights, F64), group = column_of(groups, I64);
    Rows rows = {.probs = column_of(probs, F64), .labels = happened, .n_groups = 1, .n_classes = 2};
    count(form, "binary", rows, 1);
    rows.weights = weight;
    count(form, "weighted", rows, 1);
    rows.groups = group;
    rows.n_groups = GROUPS;
    count(form, "weighted-groups", rows, 1);
    rows.weights.data = NULL;
    count(form, "groups", rows, 1);
    for (int k = 3; k <= K; k += 17) {
        Rows tops = {.probs = {(char *)table, 8 * k, 8, N / 10, k, F64}, .labels = column_of(classes, I64),
                     .n_groups = 1, .n_classes = K};
        for (tops.are_logits = 0; tops.are_logits < 2; tops.are_logits++) {
            char what[40];
            snprintf(what, sizeof what, "%d-%s", k, tops.are_logits ? "logits" : "probabilities");
            count(form, what, tops, 1);
        }
    }
    Rows marginal = {.probs = {(char *)table, 8 * K, 8, N / 10, K, F64}, .labels = column_of(classes, I64),
                     .n_groups = 1, .n_classes = K};
    count(form, "marginal", marginal, K);
    marginal.weights = weight;
    count(form, "marginal-weighted", marginal, K);
    double sums[6] = {0};
    const Lookup lookup = {.even = BINS, .shift = shift, .n_grids = 1, .n_bins = BINS};
    const Influence influence = {exponents, probs, 0.1, 0.2, 1.5, sums};
    if (form->sum_influences(&marginal, &lookup, &influence) != FINE)
        abort();
    show(form->name, "influences", sums, sizeof sums);
}

static void search(const Form *form)
{
    static uint32_t counts[(1 << 14) + 1];
    static uint8_t marked[(1 << 14) + 1];
    static double tops[N / 10], turned[N / 10 * K], picked[N], scratch[2 * K];
    const Values column = column_of(probs, F64), rows = {(char *)table, 8 * K, 8, N / 10, K, F64};
    memset(counts, 0, sizeof counts);
    if (form->count_cells(&column, counts, 1 << 14 | 1) != FINE)
        abort();
    show(form->name, "cells", counts, sizeof counts);
    for (int i = 0; i < 1 << 14; i += 3)
        marked[i] = 1;
    const int64_t found = form->pick_cells(&column, marked, 1 << 14 | 1, picked, N);
    show(form->name, "picked", picked, (size_t)found * sizeof *picked);
    for (int are_logits = 0; are_logits < 2; are_logits++) {
        if (form->top_values(&rows, are_logits, scratch, tops, F64) != FINE)
            abort();
        show(form->name, are_logits ? "top-logits" : "top-probabilities", tops, sizeof tops);
    }
    if (form->transpose(&rows, turned, N / 10) != FINE)
        abort();
    show(form->name, "transposed", turned, sizeof turned);
    static double near[5 * 14 * K];
    if (near_quantiles(form, turned, F64, K, N / 10, BINS, near) != FINE)
        abort();
    show(form->name, "near-quantiles", near, sizeof near);
    static int32_t bins[N];
    memset(bins, 0, sizeof bins);
    form->even_bins(probs, N, BINS, bins);
    show(form->name, "bins", bins, sizeof bins);
}

/* One step of the recursion of worst tails, of blocks and laws that are made up. */
static void tail(const Form *form)
{
    static double weight[BLOCKS * NODES], share[CELLS * NODES], mean[CELLS * NODES], top[CELLS];
    static double padded[2 * CELLS + 8 + 2 * NODES];
    static uint8_t needed[NODES];
    static int64_t rows[CELLS];
    memset(share, 0, sizeof share);
    memset(mean, 0, sizeof mean);
    memset(padded, 0, sizeof padded);
    const Blocks blocks = {probs, exponents, probs + BLOCKS, probs + 2 * BLOCKS, probs + 3 * BLOCKS, BLOCKS, NODES};
    form->block_weights(&blocks, probs + 500, probs + 600, NODES, weight);
    show(form->name, "weights-of-blocks", weight, sizeof weight);
    for (int64_t i = 0; i < BLOCKS; i++)
        order[i] = i % CELLS;
    for (int i = 0; i < BLOCKS * NODES; i++)
        weight[i] = probs[i];
    form->add_rows(weight, BLOCKS, NODES, order, share, CELLS);
    show(form->name, "added-rows", share, sizeof share);
    for (int64_t i = 0; i < CELLS; i++) {
        rows[i] = i;
        padded[CELLS + i] = (double)(i + 1) / CELLS; /* a left tail, which grows */
        for (int j = 0; j < NODES; j++)
            share[i * NODES + j] = probs[i * NODES + j] / CELLS;
    }
    const Tail law = {share, probs, NULL, rows, weights, weights + NODES, weights + 2 * NODES, NULL, needed,
                      CELLS, CELLS, NODES};
    form->tail_step(&law, padded, padded + 2 * CELLS + 8, mean, top);
    show(form->name, "tail", top, sizeof top);
}

int main(void)
{
    static uint64_t hashes[N];
    static double sums[10], powers[N];
    for (int i = 0; i < N; i++) {
        probs[i] = uniform();
        labels[i] = uniform() < probs[i];
        events[i] = (double)labels[i];
        exponents[i] = -700 * probs[i];
        weights[i] = uniform() * 3;
        groups[i] = (int64_t)(uniform() * GROUPS);
        classes[i] = (int64_t)(uniform() * K);
    }
    for (int k = 0; k < K; k++)
        shift[k] = k * BINS;
    for (int i = 0; i < N / 10 * K; i++)
        table[i] = uniform();
    for (int i = 0; forms[i] != NULL; i++) {
        const Form *form = forms[i];
        if (!runs_here(form))
            continue;
        count_all(form);
        search(form);
        tail(form);
        const Values wide = {(char *)probs, 8, 8, N, 1, F64};
        const uint64_t factors[2] = {0x9E3779B97F4A7C15u, 0xBF58476D1CE4E5B9u};
        uint64_t checksum;
        form->hash_rows(&wide, labels, factors, factors, UINT64_MAX / 9, hashes, &checksum);
        show(form->name, "hashes", hashes, sizeof hashes);
        memcpy(sums, (double[10]){0}, sizeof sums);
        const double theta[3] = {1.5, 0.0, -0.25};
        form->logistic_sums(probs, NULL, events, N, theta, sums);
        show(form->name, "slopes", sums + 1, 9 * sizeof *sums); /* the loss needs the log of libm */
        memcpy(powers, exponents, sizeof powers);
        form->exps(powers, N);
        show(form->name, "exps", powers, sizeof powers);
    }
    return 0;
}
