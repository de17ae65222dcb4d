/* Blocks of an array, of any type and stride, as float64 in [0, 1] or as class numbers. */

#ifndef CALIBRANT_FORM_READ_H
#define CALIBRANT_FORM_READ_H

#define BLOCK_ROWS 512
#define BLOCK_VALUES 2048
#define TILE_COLUMNS 256
#define ROWS_AHEAD 16
#define LOW_COLUMNS 32 /* that are looked through together for predictions beyond the first bin */
#define LOW_SHARE 48   /* at most one of so many may lie there, beyond which one by one is as fast. Affects speed only. */
#define ROWS_OF_A_PART 4096
#define FULL 1024 /* rows of a cell of a large table, after which its part is moved */

#define SHORT_ROW 32 /* classes; rows of more are looked through in vectors */
#define TOGETHER 32  /* short rows that are checked together: they stay in the nearest cache */

typedef int32_t float_index;
typedef int64_t double_index;

#ifdef __GNUC__
#define FETCH(address) __builtin_prefetch(address)
#define ONE_COPY __attribute__((noinline)) /* of a function in the code: a wheel stays under 1 MB */
#define ONE_BY_ONE __asm__ volatile("") /* no vectors, which for each of eight types are long */
#else
#define FETCH(address) ((void)(address))
#define ONE_COPY
#define ONE_BY_ONE ((void)0)
#endif

/* A loop over values whose stride is known to the compiler where they are next to each other. memcpy reads a
   value that is not aligned, at no cost where it is. */
#define FOR_STEPS(T, from, step, size, apart, ...)                    \
    if ((step) == (ptrdiff_t)sizeof(T)) {                             \
        for (int64_t i = 0; i < (size); i++) {                        \
            T value;                                                  \
            memcpy(&value, (from) + i * (ptrdiff_t)sizeof(T), sizeof value); \
            __VA_ARGS__                                               \
        }                                                             \
    } else {                                                          \
        for (int64_t i = 0; i < (size); i++) {                        \
            T value;                                                  \
            memcpy(&value, (from) + i * (step), sizeof value);        \
            apart;                                                    \
            __VA_ARGS__                                               \
        }                                                             \
    }
#define FOR_VALUES(T, from, step, size, ...) FOR_STEPS(T, from, step, size, (void)0, __VA_ARGS__)
#define FOR_CODES(T, from, step, size, ...) FOR_STEPS(T, from, step, size, ONE_BY_ONE, __VA_ARGS__)

#endif

/* Write predictions as float64, forced into [0, 1]; return whether they were there. */
static int FORM(read_probs)(const char *from, ptrdiff_t step, enum Type type, int64_t n, double *out)
{
    int64_t wrong = 0;
#define READ                                          \
    double x = (double)value;                         \
    wrong |= ((x >= 0.0) & (x <= 1.0)) ? 0 : 1;       \
    x = x > 0.0 ? x : 0.0; /* NaN becomes 0 */        \
    out[i] = x < 1.0 ? x : 1.0;
    if (type == F32) {
        FOR_VALUES(float, from, step, n, READ)
    } else {
        FOR_VALUES(double, from, step, n, READ)
    }
#undef READ
    return wrong == 0;
}

/* Write how far labels or groups are above `least` where that is below `bound`, else 0; return whether it is for all.
   Whole numbers wrap around, so that one comparison sees those below `least` as well. */
static int FORM(read_codes)(const Values *labels, int64_t start, int64_t n, uint64_t least, int32_t bound, int32_t *out)
{
    const char *from = labels->data + start * labels->stride;
    const ptrdiff_t step = labels->stride;
    int32_t wrong = 0;
    int64_t wrong_wide = 0;
#define SHORT                                                      \
    uint32_t code = (uint32_t)(int32_t)value - (uint32_t)least;    \
    int fits = code < (uint32_t)bound;                             \
    wrong |= fits ? 0 : 1;                                         \
    out[i] = fits ? (int32_t)code : 0;
#define WIDE                                                       \
    uint64_t code = value - least;                                 \
    int fits = code < (uint64_t)bound;                             \
    wrong_wide |= fits ? 0 : 1;                                    \
    out[i] = (int32_t)(fits ? code : 0);
#define REAL                                                       \
    double y = (double)value;                                      \
    int fits = (y >= 0.0) & (y < (double)bound);                   \
    y = fits ? y : 0.0;                                            \
    int32_t code = (int32_t)y;                                     \
    wrong_wide |= (fits & ((double)code == y)) ? 0 : 1;            \
    out[i] = code;
#define ZERO_OR_ONE                                                \
    wrong_wide |= ((value == 0) | (value == 1)) ? 0 : 1;           \
    out[i] = value == 1 ? 1 : 0;
    if (bound == 2 && labels->type == F64) { /* the commonest floats need no conversion */
        FOR_CODES(double, from, step, n, ZERO_OR_ONE)
        return wrong_wide == 0;
    }
    switch (labels->type) {
    case I8: FOR_CODES(int8_t, from, step, n, SHORT) break;
    case U8: FOR_CODES(uint8_t, from, step, n, SHORT) break;
    case I16: FOR_CODES(int16_t, from, step, n, SHORT) break;
    case U16: FOR_CODES(uint16_t, from, step, n, SHORT) break;
    case I32: case U32: FOR_CODES(uint32_t, from, step, n, SHORT) break; /* below 0 is above the bound */
    case I64: case U64: FOR_CODES(uint64_t, from, step, n, WIDE) break;
    case F32: FOR_CODES(float, from, step, n, REAL) break;
    case F64: FOR_CODES(double, from, step, n, REAL) break;
    }
#undef SHORT
#undef WIDE
#undef REAL
#undef ZERO_OR_ONE
    return wrong == 0 && wrong_wide == 0;
}

static void FORM(read_weights)(const Values *weights, int64_t start, int64_t n, double *out)
{
    const char *from = weights->data + start * weights->stride;
    FOR_VALUES(double, from, weights->stride, n, out[i] = value;)
}

/* exp(x) for x <= 0, to 1 ulp; exp(-708) below that. No call and no branch, so that loops become vectors:
   x = n log 2 + r with |r| <= log(2) / 2, a Taylor polynomial of degree 13 whose rest is below 5e-18, and 2^n made
   from the bits that adding 1.5 * 2^52 leaves n in. */
static inline double FORM(exp_below_zero)(double x)
{
    const double round = 6755399441055744.0;
    x = x > -708.0 ? x : -708.0;
    double shifted = x * 1.4426950408889634 + round;
    double n = shifted - round;
    double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double r2 = r * r, r4 = r2 * r2;
    double low = (1.0 / 2 + r * (1.0 / 6)) + r2 * (1.0 / 24 + r * (1.0 / 120));
    double middle = (1.0 / 720 + r * (1.0 / 5040)) + r2 * (1.0 / 40320 + r * (1.0 / 362880));
    double high = (1.0 / 3628800 + r * (1.0 / 39916800)) + r2 * (1.0 / 479001600 + r * (1.0 / 6227020800.0));
    double exponential = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)));
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return exponential * power;
}

static void FORM(exps)(double *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = FORM(exp_below_zero)(values[i]);
}

/* Sum in four lanes, whatever the vectors of the processor. */
static double FORM(sum_of)(const double *terms, int64_t n)
{
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        a += terms[k];
        b += terms[k + 1];
        c += terms[k + 2];
        d += terms[k + 3];
    }
    for (; k < n; k++)
        a += terms[k];
    return (a + b) + (c + d);
}

/* Whether all values are between `least` and `most`; NaN is not. */
#define WITHIN(T, NAME)                                                                        \
    static int FORM(NAME)(const T *values, int64_t n, T least, T most)                         \
    {                                                                                          \
        int64_t wrong = 0;                                                                     \
        for (int64_t i = 0; i < n; i++)                                                        \
            wrong |= ((values[i] >= least) & (values[i] <= most)) ? 0 : 1;                     \
        return wrong == 0;                                                                     \
    }
WITHIN(float, within_f32)
WITHIN(double, within_f64)
#undef WITHIN

/* Return the first place of the largest of n values, or -1 where one is not between `least` and `most`. In a long
   row each lane of a vector keeps its own largest value and the first place of it. */
#ifdef __GNUC__
#define LARGEST_OF_LANES(T, V, I)                                              \
    if (n >= SHORT_ROW) {                                                      \
        const int64_t lanes = 8 * FORM_LANES / (int64_t)sizeof(T);             \
        V best = row[0] - (V){0};                                              \
        I places = {0}, wrong = {0};                                           \
        for (; k + lanes <= n; k += lanes) {                                   \
            V x = *(const V *)(row + k);                                       \
            I larger = x > best;                                               \
            best = (V)((larger & (I)x) | (~larger & (I)best));                 \
            places = (larger & ((I){0} + (T##_index)k)) | (~larger & places);  \
            wrong |= ~((x >= least) & (x <= most));                            \
        }                                                                      \
        for (int l = 0; l < lanes; l++) {                                      \
            const int64_t place = places[l] + l;                               \
            fine &= wrong[l] == 0;                                             \
            if (best[l] > largest || (best[l] == largest && place < top)) {    \
                largest = best[l];                                             \
                top = place;                                                   \
            }                                                                  \
        }                                                                      \
    }
typedef float FORM(Floats) __attribute__((vector_size(8 * FORM_LANES), aligned(4), may_alias));
typedef double FORM(Doubles) __attribute__((vector_size(8 * FORM_LANES), aligned(8), may_alias));
typedef int32_t FORM(Int32s) __attribute__((vector_size(8 * FORM_LANES)));
typedef int64_t FORM(Int64s) __attribute__((vector_size(8 * FORM_LANES)));
#else
#define LARGEST_OF_LANES(T, V, I)
#endif
#define LARGEST(T, V, I, NAME, WITHIN)                                         \
    static int64_t FORM(NAME)(const T *row, int64_t n, T least, T most, int checked) \
    {                                                                          \
        T largest = row[0];                                                    \
        int64_t top = 0, k = 0;                                                \
        int fine = 1;                                                          \
        LARGEST_OF_LANES(T, V, I)                                              \
        fine &= checked || FORM(WITHIN)(row + k, n - k, least, most);          \
        for (; k < n; k++) {                                                   \
            top = row[k] > largest ? k : top;                                  \
            largest = row[k] > largest ? row[k] : largest;                     \
        }                                                                      \
        return fine ? top : -1;                                                \
    }
LARGEST(float, FORM(Floats), FORM(Int32s), largest_f32, within_f32)
LARGEST(double, FORM(Doubles), FORM(Int64s), largest_f64, within_f64)
#undef LARGEST
#undef LARGEST_OF_LANES

/* Return the first place of the largest prediction of row i, and its probability, of logits by a softmax, in
   `prob`; or -1 where a value of the row is not valid. `scratch` has room for two rows of float64. */
static inline int64_t FORM(top_of)(const Values *probs, int64_t i, int are_logits, int checked, double *scratch,
                                   double *prob)
{
    const char *from = probs->data + i * probs->stride;
    const int64_t n = probs->n_columns;
    double *terms = scratch + n, best;
    int64_t top;
#define TOP(T, LARGEST, MOST)                                                              \
    const T *row = (const T *)from;                                                        \
    if (probs->column_stride != (ptrdiff_t)sizeof(T) || (uintptr_t)from % sizeof(T) != 0) { \
        for (int64_t k = 0; k < n; k++)                                                    \
            memcpy((T *)scratch + k, from + k * probs->column_stride, sizeof(T));          \
        row = (const T *)scratch;                                                          \
    }                                                                                      \
    top = are_logits ? LARGEST(row, n, (T)-INFINITY, MOST, checked) : LARGEST(row, n, 0, 1, checked); \
    if (top < 0)                                                                           \
        return -1;                                                                         \
    best = (double)row[top];                                                               \
    if (are_logits)                                                                        \
        for (int64_t k = 0; k < n; k++)                                                    \
            terms[k] = FORM(exp_below_zero)((double)row[k] - best);
    if (probs->type == F32) {
        TOP(float, FORM(largest_f32), FLT_MAX)
    } else {
        TOP(double, FORM(largest_f64), DBL_MAX)
    }
#undef TOP
    if (are_logits) {
        if (best == -INFINITY)
            return -1;
        best = 1.0 / FORM(sum_of)(terms, n);
    }
    best = best > 0.0 ? best : 0.0;
    *prob = best < 1.0 ? best : 1.0;
    return top;
}

/* Whether the predictions of n short rows that lie next to each other are valid. */
static int FORM(rows_within)(const Values *probs, int64_t start, int64_t n, int are_logits)
{
    const void *from = probs->data + start * probs->stride;
    n *= probs->n_columns;
    if (probs->type == F32)
        return FORM(within_f32)(from, n, are_logits ? (float)-INFINITY : 0.0f, are_logits ? FLT_MAX : 1.0f);
    return FORM(within_f64)(from, n, are_logits ? (double)-INFINITY : 0.0, are_logits ? DBL_MAX : 1.0);
}

/* The same for a block of rows: write where the largest predictions are, and their probabilities; return whether
   all are valid. Short rows that lie next to each other are checked together, in vectors. */
static int FORM(tops_of)(const Values *probs, int64_t start, int64_t n, int are_logits, double *scratch,
                         int32_t *tops, double *x)
{
    const ptrdiff_t size = probs->type == F32 ? sizeof(float) : sizeof(double);
    const int together = probs->n_columns < SHORT_ROW && probs->column_stride == size &&
                         probs->stride == probs->n_columns * size && (uintptr_t)probs->data % (uintptr_t)size == 0;
    for (int64_t i = 0; i < n; i++) {
        if (together && i % TOGETHER == 0 &&
            !FORM(rows_within)(probs, start + i, n - i < TOGETHER ? n - i : TOGETHER, are_logits))
            return 0;
        FETCH(probs->data + (start + i + ROWS_AHEAD) * probs->stride);
        const int64_t top = FORM(top_of)(probs, start + i, are_logits, together, scratch, x + i);
        if (top < 0)
            return 0;
        tops[i] = (int32_t)top;
    }
    return 1;
}
