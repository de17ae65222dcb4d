/* The loss of a logistic model of one or two features, with its derivatives. */

#ifndef CALIBRANT_FORM_LOGISTIC_H
#define CALIBRANT_FORM_LOGISTIC_H

#define LOSS_BLOCK 512

#ifdef __GNUC__
#define LOSS_LANES 4
typedef double Lanes __attribute__((vector_size(32), aligned(8), may_alias)); /* sums in lanes, as vectors */
#else
#define LOSS_LANES 1
typedef double Lanes;
#endif

#endif

/* The sum of log(1 + t) over a block of t in [0, 1], from products of 64 terms; spoils the block. */
static double FORM(sum_of_logs)(double *tails)
{
    int half = LOSS_BLOCK / 2;
    for (int i = 0; i < half; i++)
        tails[i] = (1.0 + tails[i]) * (1.0 + tails[half + i]);
    while (half > LOSS_BLOCK / 64) {
        half /= 2;
        for (int i = 0; i < half; i++)
            tails[i] *= tails[half + i];
    }
    double total = 0.0;
    for (int i = 0; i < half; i++)
        total += log(tails[i]);
    return total;
}

/* Write the summed log loss, its gradient (first, second, intercept) and the upper half of its Hessian. Without a
   second feature its sums are 0. */
static void FORM(logistic_sums)(const double *first, const double *second, const double *events, int64_t n,
                                const double *theta, double *out)
{
    double tails[LOSS_BLOCK], slope[LOSS_BLOCK], curve[LOSS_BLOCK], loss[LOSS_BLOCK];
    Lanes sums[10];
    double logs = 0.0;
    const double a = theta[0], b = theta[1], c = theta[2];
    memset(sums, 0, sizeof sums);
    for (int64_t start = 0; start < n; start += LOSS_BLOCK) {
        const int64_t rest = n - start, size = rest < LOSS_BLOCK ? rest : LOSS_BLOCK;
        const double *x1 = first + start, *x2 = second == NULL ? x1 : second + start, *y = events + start;
        const double b_or_0 = second == NULL ? 0.0 : b;
        for (int64_t i = 0; i < size; i++) {
            double eta = a * x1[i] + b_or_0 * x2[i] + c, size_of = fabs(eta);
            double tail = FORM(exp_below_zero)(-size_of);
            double large = 1.0 / (1.0 + tail), small = tail * large;
            tails[i] = tail;
            slope[i] = (eta >= 0.0 ? large : small) - y[i];
            curve[i] = large * small;
            loss[i] = 0.5 * (eta + size_of) - y[i] * eta;
        }
        int64_t i = 0;
        Lanes own[10];
        memcpy(own, sums, sizeof own);
        if (second == NULL) {
            for (; i + LOSS_LANES <= size; i += LOSS_LANES) {
                Lanes u = *(const Lanes *)(x1 + i), s = *(const Lanes *)(slope + i), q = *(const Lanes *)(curve + i);
                Lanes qu = q * u;
                own[0] += *(const Lanes *)(loss + i);
                own[1] += s * u;
                own[3] += s;
                own[4] += qu * u;
                own[6] += qu;
                own[9] += q;
            }
        } else {
            for (; i + LOSS_LANES <= size; i += LOSS_LANES) {
                Lanes u = *(const Lanes *)(x1 + i), v = *(const Lanes *)(x2 + i);
                Lanes s = *(const Lanes *)(slope + i), q = *(const Lanes *)(curve + i);
                Lanes qu = q * u, qv = q * v;
                own[0] += *(const Lanes *)(loss + i);
                own[1] += s * u;
                own[2] += s * v;
                own[3] += s;
                own[4] += qu * u;
                own[5] += qu * v;
                own[6] += qu;
                own[7] += qv * v;
                own[8] += qv;
                own[9] += q;
            }
        }
        memcpy(sums, own, sizeof own);
        double *scalar = (double *)sums; /* the first lane of each sum takes the last few rows */
        for (; i < size; i++) {
            double u = x1[i], v = second == NULL ? 0.0 : x2[i], q = curve[i];
            double terms[10] = {loss[i], slope[i] * u, slope[i] * v, slope[i], q * u * u,
                                q * u * v, q * u, q * v * v, q * v, q};
            for (int j = 0; j < 10; j++)
                scalar[j * LOSS_LANES] += terms[j];
        }
        memset(tails + size, 0, (size_t)(LOSS_BLOCK - size) * sizeof *tails);
        logs += FORM(sum_of_logs)(tails);
    }
    for (int j = 0; j < 10; j++) {
        const double *lanes = (const double *)(sums + j);
        out[j] = 0.0;
        for (int l = 0; l < LOSS_LANES; l++)
            out[j] += lanes[l];
    }
    out[0] += logs;
}
