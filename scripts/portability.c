/* Runs the loops in every form on rows made up here, and prints a hash of the bits of each result; see portability. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

enum { N = 20011, K = 37, BINS = 15 };

static double probs[N], table[N / 10 * K];
static int64_t labels[N];
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

static void count(const Form *form, const char *what, Values values, int n_classes, int are_logits)
{
    const int64_t size = 2 * BINS * 4;
    double *parts = aligned_alloc(64, 4 * 2 * BINS * 4 * sizeof(double)), *rest = calloc(4096, sizeof(double));
    memset(parts, 0, (size_t)(4 * size) * sizeof *parts);
    const Rows rows = {.probs = values, .labels = {(char *)labels, 8, 0, values.n_rows, 0, I64}, .n_groups = 1,
                       .n_classes = n_classes, .are_logits = are_logits};
    const Lookup lookup = {.even = BINS, .n_grids = 1, .n_bins = BINS};
    Sums sums = {parts, rest, rest + size, 2 * BINS, 4, 4, NULL, rest + 2 * size};
    if (form->count_column(&rows, &lookup, &sums) != FINE)
        abort();
    show(form->name, what, sums.totals, (size_t)size * sizeof(double));
    free(parts);
    free(rest);
}

int main(void)
{
    static uint32_t counts[(1 << 14) + 1];
    static uint64_t hashes[N];
    static double events[N], sums[10], exponents[N];
    for (int i = 0; i < N; i++) {
        probs[i] = uniform();
        labels[i] = uniform() < probs[i];
        events[i] = (double)labels[i];
        exponents[i] = -700 * probs[i];
    }
    for (int i = 0; i < N / 10 * K; i++)
        table[i] = uniform();
    const Values column = {(char *)probs, 8, 0, N, 0, F64};
    for (int i = 0; forms[i] != NULL; i++) {
        const Form *form = forms[i];
        if (!runs_here(form))
            continue;
        count(form, "binary", column, 2, 0);
        for (int k = 3; k <= K; k += 17) {
            Values rows = {(char *)table, 8 * k, 8, N / 10, k, F64};
            for (int are_logits = 0; are_logits < 2; are_logits++) {
                char what[40];
                snprintf(what, sizeof what, "%d-%s", k, are_logits ? "logits" : "probabilities");
                count(form, what, rows, k, are_logits);
            }
        }
        memset(counts, 0, sizeof counts);
        if (form->count_cells(&column, counts, 1 << 14 | 1) != FINE)
            abort();
        show(form->name, "cells", counts, sizeof counts);
        const Values wide = {(char *)probs, 8, 8, N, 1, F64};
        const uint64_t factors[2] = {0x9E3779B97F4A7C15u, 0xBF58476D1CE4E5B9u};
        uint64_t checksum;
        form->hash_rows(&wide, labels, factors, factors, UINT64_MAX / 9, hashes, &checksum);
        show(form->name, "hashes", hashes, sizeof hashes);
        memcpy(sums, (double[10]){0}, sizeof sums);
        const double theta[3] = {1.5, 0.0, -0.25};
        form->logistic_sums(probs, NULL, events, N, theta, sums);
        show(form->name, "slopes", sums + 1, 9 * sizeof *sums); /* the loss needs the log of libm */
        static double powers[N];
        memcpy(powers, exponents, sizeof powers);
        form->exps(powers, N);
        show(form->name, "exps", powers, sizeof powers);
    }
    return 0;
}
