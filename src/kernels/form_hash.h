/* Hashes of rows, by which a recalibrator knows the rows of its fit again. */

static inline uint64_t FORM(key_of)(double value)
{
    value += 0.0; /* -0.0 becomes 0.0 */
    uint64_t key;
    memcpy(&key, &value, sizeof key);
    return key ^ key >> 32;
}

/* As calibrant.recalibrators.fingerprint.hash_rows: write the hashes up to a bound, return how many there are and, in
   `checksum`, the sum of all. */
static int64_t FORM(hash_rows)(const Values *rows, const int64_t *codes, const uint64_t *factors,
                               const uint64_t mixers[2], uint64_t bound, uint64_t *out, uint64_t *checksum)
{
    uint64_t mixed[BLOCK_ROWS], sum = 0;
    const int64_t width = rows->n_columns;
    int64_t found = 0;
    for (int64_t start = 0; start < rows->n_rows; start += BLOCK_ROWS) {
        const int64_t rest = rows->n_rows - start, n = rest < BLOCK_ROWS ? rest : BLOCK_ROWS;
        const char *block = rows->data + start * rows->stride;
        for (int64_t i = 0; i < n; i++)
            mixed[i] = ((uint64_t)codes[start + i] + 1) * factors[width];
#define HASH(T)                                                                                         \
    if (width == 1) { /* neighbours in a vector are rows, else columns */                               \
        FOR_VALUES(T, block, rows->stride, n, mixed[i] += FORM(key_of)((double)value) * factors[0];)    \
    } else {                                                                                            \
        for (int64_t row = 0; row < n; row++) {                                                         \
            const char *from = block + row * rows->stride;                                              \
            uint64_t own = 0;                                                                           \
            FOR_VALUES(T, from, rows->column_stride, width, own += FORM(key_of)((double)value) * factors[i];) \
            mixed[row] += own;                                                                          \
        }                                                                                               \
    }
        if (rows->type == F32) {
            HASH(float)
        } else {
            HASH(double)
        }
#undef HASH
        for (int64_t i = 0; i < n; i++) {
            uint64_t own = mixed[i];
            own = (own ^ own >> 29) * mixers[0];
            own = (own ^ own >> 32) * mixers[1];
            sum += own;
            mixed[i] = own;
        }
        for (int64_t first = 0; first < n; first += 8) { /* most are above the bound: eight at a time */
            const int64_t end = first + 8 < n ? first + 8 : n;
            int some = 0;
            for (int64_t i = first; i < end; i++)
                some |= mixed[i] <= bound;
            for (int64_t i = first; some && i < end; i++)
                if (mixed[i] <= bound)
                    out[found++] = mixed[i];
        }
    }
    *checksum = sum;
    return found;
}
