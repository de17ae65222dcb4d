// Kernels of `calibrant.engines.cuda`, compiled at run time. Macros say for what:
//   TYPE     of the predictions: 0 half, 1 bfloat16, 2 float, 3 double (or none are read)
//   LOGITS   1 if these are logits
//   LABEL    bytes of a label: 1 (unsigned), 4 or 8 (signed)
//   EVENTS   1 if rows have a label of 0 or 1 for each column, not one among the columns
//   others   stand at the kernel that has them
// The state and its limbs are those of `calibrant.engines.exact_sums`.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

#ifndef EVENTS
#define EVENTS 0
#endif
#define WIDE (LOGITS || TYPE == 3)
#define LIMBS (WIDE ? 17 : 7)
enum { MISSING, IMPOSSIBLE, UNKNOWN, ROUNDED, FLAGS };

#if TYPE == 3
typedef double stored, real;
#elif TYPE == 2
typedef float stored, real;
#else
typedef unsigned short stored;
typedef float real;
#endif
#if WIDE
typedef double number;
#else
typedef float number;
#endif
#if LABEL == 1
typedef unsigned char label;
#elif LABEL == 4
typedef int label;
#else
typedef i64 label;
#endif

__device__ __forceinline__ real value_of(stored x) {
#if TYPE == 0
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
#elif TYPE == 1
    return __uint_as_float((u32)x << 16);
#else
    return x;
#endif
}

// exp(x) for x <= 0: 2^(n / 256) from a table, times a cubic; wrong by 1.4e-13 of it at most
#define TABLE 256
__device__ __forceinline__ double exp_below_zero(double x, const double* table, int copies) {
    const double magic = 6755399441055744.0;  // 1.5 * 2^52 rounds to a whole number
    double t = x * 369.3299304675746;         // 256 / log 2
    double k = t + magic;
    int n = __double2loint(k);
    double r = t - (k - magic);
    double q = fma(r, fma(r, 3.308302680541371e-09, 3.6655660538463866e-06), 0.0027076061740622863);
    double s = table[(n & (TABLE - 1)) * copies];
    s = fma(s * r, q, s);
    double out = __hiloint2double(__double2hiint(s) + ((n >> 8) << 20), __double2loint(s));
    return t < -TABLE * 1000.0 ? 0.0 : out;  // NaN stays
}

__device__ __forceinline__ void fill_table(double* table, int copies) {
    for (int i = threadIdx.x + blockDim.x * threadIdx.y; i < TABLE * copies; i += blockDim.x * blockDim.y)
        table[i] = exp2((double)(i / copies) / TABLE);
}

// p 2^(31 + m) = high + 2^-31 low, m as in the cells: from the exponent of p alone
__device__ __forceinline__ void wide_halves(double p, u32& high, u32& low, bool& rounded) {
    int top = __double2hiint(p);
    int j = 1023 - (top >> 20) - (((top & 0xfffff) | __double2loint(p)) != 0);
    int m = j < 144 ? j & ~7 : 144 + 20 * min((j - 144) / 20, 5);
    double scaled = p * __hiloint2double((1023 + 31 + m) << 20, 0);
    high = (u32)scaled;
    double rest = (scaled - high) * 2147483648.0;
    low = (u32)rint(rest);
    rounded |= low != rest;
}
__device__ __forceinline__ void halves_of(number p, u32& high, u32& low, bool& rounded) {
#if WIDE
    wide_halves(p, high, low, rounded);
#else
    u32 bits = __float_as_uint(p);
    low = 0;
    if (bits >= 0x00800000) {
        int e = 127 - (bits >> 23);
        int j = e - ((bits & 0x7fffff) != 0);
        high = ((bits << 8) | 0x80000000u) >> (e - (j & ~7));
    } else {  // 0, or below 2^-126
        int top = 31 - __clz(bits | 1);
        int j = 149 - top - ((bits & (bits - 1)) != 0);
        high = bits ? bits << (min(j & ~7, 144) - 118) : 0;
    }
#endif
}

// sums of limbs of 16 bits, added to limbs of 21 bits
#define LOW21 0x1fffffull
__device__ __forceinline__ void put(u64* out, u64 x) {
    if (x) atomicAdd(out, x);
}
__device__ __forceinline__ void put_half(u64* out, u64 a, u64 b) {
    u64 x = a + (b << 16);
    put(out, x & LOW21);
    put(out + 1, x >> 21);
}
__device__ __forceinline__ void put_product(u64* out, u64 a, u64 b, u64 c, u64 d) {
    u64 x = a + (b << 16), y = c + (d << 16);
    put(out, x & LOW21);
    put(out + 1, (x >> 21) + ((y & 0x3ff) << 11));
    put(out + 2, y >> 10);
}
__device__ __forceinline__ void put_limbs(u64* cell, const u64* t) {
    put(cell, t[0]);
    put_half(cell + 1, t[1], t[2]);
    put_product(cell + 3, t[3], t[4], t[5], t[6]);
#if WIDE
    put_half(cell + 6, t[7], t[8]);
    put_product(cell + 8, t[9], t[10], t[11], t[12]);
    put_product(cell + 11, t[13], t[14], t[15], t[16]);
#endif
}
// the limbs of 16 bits of one row, given to `add(number of the limb, limb)`
template <class F>
__device__ __forceinline__ void limbs_of(u32 high, u32 low, F add) {
    u64 square = (u64)high * high;
    add(0, 1u);
    add(1, high & 0xffff), add(2, high >> 16);
    add(3, (u32)square & 0xffff), add(4, (u32)square >> 16);
    add(5, (u32)(square >> 32) & 0xffff), add(6, (u32)(square >> 48));
#if WIDE
    u64 small = (u64)low * low, product = (u64)high * low;
    add(7, low & 0xffff), add(8, low >> 16);
    add(9, (u32)small & 0xffff), add(10, (u32)small >> 16);
    add(11, (u32)(small >> 32) & 0xffff), add(12, (u32)(small >> 48));
    add(13, (u32)product & 0xffff), add(14, (u32)product >> 16);
    add(15, (u32)(product >> 32) & 0xffff), add(16, (u32)(product >> 48));
#endif
}
__device__ __forceinline__ void put_row(u64* cell, u32 high, u32 low) {
    u64 t[LIMBS];
    limbs_of(high, low, [&](int i, u32 x) { t[i] = x; });
    put_limbs(cell, t);
}

// how many of some sorted values, `step` apart, are below x: at least `low`, and at most `high`
template <class T>
__device__ __forceinline__ int count_below(const T* values, int low, int high, int step, T x) {
    while (low < high) {
        int half = (low + high) >> 1;
        bool up = values[half * step] < x;
        low = up ? half + 1 : low;
        high = up ? high : half;
    }
    return low;
}

#ifdef COUNT_COLUMN
// Predictions of one event, or confidences. Limbs of 16 bits are summed in shared memory (IN_SHARED
// 1), in some copies; no block has more than 65,536 rows for each. Edges end with one above all.
// `table` holds the number of edges below the least float with the leading bits of an index.
extern "C" __global__ void count_column(
    const stored* __restrict__ p, i64 p_stride, const label* __restrict__ y, i64 n,
    int aligned, const number* __restrict__ edges, int n_edges,
    const unsigned short* __restrict__ table, int shift, i64* __restrict__ state, int copies,
    int has_ignored, i64 ignored)
{
#if IN_SHARED
    const int stride = 2 * (n_edges + 1);
    extern __shared__ double memory[];
    number* e = (number*)memory;
    u32* sums = (u32*)(e + n_edges + 2);
    unsigned short* first = (unsigned short*)(sums + copies * stride * LIMBS);
    for (int i = threadIdx.x; i < copies * stride * LIMBS; i += blockDim.x) sums[i] = 0;
    for (int i = threadIdx.x; i <= n_edges; i += blockDim.x) e[i] = edges[i];
#if !WIDE
    for (int i = threadIdx.x; i <= (0x3f800000 >> shift); i += blockDim.x) first[i] = table[i];
#endif
    __syncthreads();
    u32* own = sums + (threadIdx.x % copies) * stride * LIMBS;
#else
    const number* e = edges;
    const unsigned short* first = table;
#endif
    u32 missing = 0, impossible = 0, unknown = 0;
    u64 n_rounded = 0;
    auto add = [&](stored given, label happened) {
        if (has_ignored && happened == (label)ignored) return;
#if LOGITS
        number x = 1.0 / (1.0 + exp(-(double)value_of(given)));
#else
        number x = value_of(given);
#endif
        bool fine = x >= 0 && x <= 1, known = happened == 0 || happened == 1;
        if (!(fine && known)) {
            missing += x != x;
            impossible += !fine && x == x;
            unknown += !known;
            return;
        }
        x += 0;  // -0 becomes 0
#if WIDE
        int c = count_below(e, 0, n_edges, 1, x);
#else
        int c = first[__float_as_uint(x) >> shift];
        while (e[c] < x) c++;
#endif
        u32 high, low;
        bool rounded = false;
        halves_of(x, high, low, rounded);
        n_rounded += rounded;
        int place = 2 * c + (int)happened;
#if IN_SHARED
        limbs_of(high, low, [&](int i, u32 limb) { atomicAdd(own + place + i * stride, limb); });
#else
        put_row((u64*)state + FLAGS + 14 * place, high, low);
#endif
    };
    const i64 step = (i64)gridDim.x * blockDim.x, at = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    i64 done = 0;
    if (aligned) {
        struct alignas(4 * sizeof(stored) < 16 ? 4 * sizeof(stored) : 16) four_values { stored x[4]; };
        struct alignas(4 * sizeof(label) < 16 ? 4 * sizeof(label) : 16) four_labels { label x[4]; };
        done = n / 4 * 4;
        for (i64 i = at; i < n / 4; i += step) {
            four_values a = ((const four_values*)p)[i];
            four_labels b = ((const four_labels*)y)[i];
#pragma unroll
            for (int k = 0; k < 4; k++) add(a.x[k], b.x[k]);
        }
    }
    for (i64 i = done + at; i < n; i += step) add(p[i * p_stride], y[i]);
    if (missing) atomicAdd((u64*)state + MISSING, (u64)missing);
    if (impossible) atomicAdd((u64*)state + IMPOSSIBLE, (u64)impossible);
    if (unknown) atomicAdd((u64*)state + UNKNOWN, (u64)unknown);
    if (n_rounded) atomicAdd((u64*)state + ROUNDED, n_rounded);
#if IN_SHARED
    __syncthreads();
    for (int i = threadIdx.x; i < stride; i += blockDim.x) {
        u64 t[LIMBS];
#pragma unroll
        for (int k = 0; k < LIMBS; k++) {
            t[k] = 0;
            for (int c = 0; c < copies; c++) t[k] += sums[(c * LIMBS + k) * stride + i];
        }
        if (t[0]) put_limbs((u64*)state + FLAGS + 14 * i, t);
    }
#endif
}
#endif

#ifdef READ_ROWS
// Rows of several classes, GROUP threads for each: the largest value, its first column, what the
// softmax gives it, and every check. A thread holds HELD vectors of a row in registers, or reads one
// after the other (0). What becomes of a row (KEPT):
//   0  it is added to the state: the confidence, and whether the first largest is the label
//   1  its confidence is written
//   2  so are its largest logit and its label, -1 if it is left out, for `count_table`
#define BY_BITS (LOGITS && TYPE == 1)
#if BY_BITS
// exp of every bfloat16 with 2^-16 <= |v| < 2^8 is in a table. On an H200 that takes 0.9 ms for 8,192
// rows of 128,256; a cubic in float64 takes 2.1, two small tables in 16 copies each 1.5
#define LOWEST (111 << 7)
#define SPAN (24 << 7)
#endif
struct Best { real m; int at; double s; u32 wrong; };
enum { NAN_VALUE = 1, BAD_VALUE = 2, BEYOND = 4 };

// of all lanes of a warp; sums are relative to the largest, but those by bits
__device__ __forceinline__ Best of_warp(Best best, const double* table) {
    real m = best.m;
    for (int o = 16; o; o >>= 1) {
        real other = __shfl_xor_sync(~0u, m, o);
        m = other > m ? other : m;
    }
#if LOGITS && !BY_BITS
    if (best.s > 0) best.s *= exp_below_zero((double)best.m - (double)m, table, 16);
#endif
    best.at = best.m == m ? best.at : 0x7fffffff;
    best.m = m;
    for (int o = 16; o; o >>= 1) {
        best.at = min(best.at, __shfl_xor_sync(~0u, best.at, o));
        best.wrong |= __shfl_xor_sync(~0u, best.wrong, o);
        if (LOGITS) best.s += __shfl_xor_sync(~0u, best.s, o);
    }
    return best;
}
__device__ __forceinline__ Best of_row(Best best, const double* table) {
    best = of_warp(best, table);
#if GROUP > 32
    __shared__ Best warps[GROUP / 32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
    __syncthreads();
    Best none = {-__int_as_float(0x7f800000), 0x7fffffff, 0, 0};
    best = of_warp(threadIdx.x % 32 < GROUP / 32 ? warps[threadIdx.x % 32] : none, table);
    __syncthreads();
#endif
    return best;
}

#if BY_BITS
__device__ __forceinline__ double exp_by_bits(float v, const double* table, u32& wrong) {
    u32 bits = __float_as_uint(v) >> 16;
    int k = (int)(bits & 0x7fff) - LOWEST;
    if ((u32)k < SPAN) return table[bits >> 15 ? k + SPAN : k];
    if (k < 0) return 1.0 + (double)v + 0.5 * (double)v * (double)v;
    if (v != v) wrong |= NAN_VALUE;
    if (v >= 256) wrong |= v == __int_as_float(0x7f800000) ? BAD_VALUE : BEYOND;
    return 0.0;
}
// the same by arithmetic alone, for |v| < 256: 2^n times a polynomial of degree 10, which interpolates
// exp at the Chebyshev points of [-log(2) / 2, log(2) / 2]; wrong by 4e-16 of it
__device__ __forceinline__ double exp_by_powers(float v) {
    const double magic = 6755399441055744.0;
    double x = v, k = fma(x, 1.4426950408889634, magic);
    int n = __double2loint(k);
    k -= magic;
    double r = fma(k, -2.3190468138462996e-17, fma(k, -0.6931471805599453, x));
    double q = 2.7626357241447223e-07;
    q = fma(q, r, 2.764018079620985e-06);
    q = fma(q, r, 2.4801504346997686e-05);
    q = fma(q, r, 0.00019841170270440067);
    q = fma(q, r, 0.0013888888932488599);
    q = fma(q, r, 0.008333333385667782);
    q = fma(q, r, 0.04166666666657314);
    q = fma(q, r, 0.16666666666554406);
    q = fma(q, r, 0.5000000000000006);
    q = fma(q, r, 1.0000000000000067);
    q = fma(q, r, 1.0);
    return __hiloint2double(__double2hiint(q) + (n << 20), __double2loint(q));
}
// for a row with logits from 256 on, or none above -200: relative to the largest
__device__ __noinline__ double slow_sum(const stored* values, int n_columns, int lane, double m) {
    Best sum = {0, 0, 0, 0};
    for (int i = lane; i < n_columns; i += GROUP) sum.s += exp((double)value_of(values[i]) - m);
    return of_row(sum, 0).s;
}
#endif

#define VECTOR (16 / (int)sizeof(stored))
#define THREADS (GROUP > 32 ? 512 : 256)
extern "C" __global__ void __launch_bounds__(THREADS, BY_BITS ? 2048 / THREADS : HELD > 4 ? 2 : 1) read_rows(
    const stored* __restrict__ x, const label* __restrict__ y, i64 n, int n_columns, i64 stride,
    int aligned, const double* __restrict__ exponentials, const double* __restrict__ edges,
    int n_edges, double* __restrict__ confidence, double* __restrict__ largest,
    int* __restrict__ code, i64* __restrict__ state, int has_ignored, i64 ignored)
{
    extern __shared__ double memory[];
    const double* table = memory;
#if BY_BITS
    for (int i = threadIdx.x; i < 2 * SPAN; i += blockDim.x) memory[i] = exponentials[i];
#elif LOGITS
    fill_table(memory, 16);
    table = memory + (threadIdx.x & 15);
#endif
    __syncthreads();
    const int lane = threadIdx.x % GROUP, rows_at_once = blockDim.x / GROUP;
    const real infinity = __int_as_float(0x7f800000);
    for (i64 row = blockIdx.x * (i64)rows_at_once + threadIdx.x / GROUP; row < n; row += (i64)gridDim.x * rows_at_once) {
        const stored* values = x + row * stride;
        Best best = {-infinity, 0x7fffffff, 0, 0};
#if !HELD
        auto read = [&](const real* v, int count, int from) {
            real top = v[0];
#pragma unroll
            for (int j = 1; j < count; j++) top = v[j] > top ? v[j] : top;
            if (top > best.m) {
#pragma unroll
                for (int j = count - 1; j >= 0; j--) if (v[j] == top) best.at = from + j;
#if LOGITS && !BY_BITS
                best.s = best.s > 0 ? best.s * exp_below_zero((double)best.m - (double)top, table, 16) : 0.0;
#endif
                best.m = top;
            }
#pragma unroll
            for (int j = 0; j < count; j++) {
#if BY_BITS
                best.s += exp_by_bits(v[j], table, best.wrong);
#else
                if (v[j] != v[j]) best.wrong |= NAN_VALUE;
                if (LOGITS ? v[j] == infinity : v[j] < 0 || v[j] > 1) best.wrong |= BAD_VALUE;
#if LOGITS
                if (v[j] > -infinity) best.s += exp_below_zero((double)v[j] - (double)best.m, table, 16);
#endif
#endif
            }
        };
#endif
#if BY_BITS && __CUDA_ARCH__ >= 800
#define BY_WORDS 1
        // eight values in four words; where none is out of the table's range, all is done on pairs
        auto read_words = [&](int i) {
            uint4 loaded = __ldcs((const uint4*)values + i);
            const u32 w[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
            u32 pair = w[0], within = ~0u;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (j) asm("max.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(w[j]));
                u32 size = w[j] & 0x7fff7fff;
                // the highest bit of each half tells whether it is at least LOWEST, and beyond
                within &= (size + (0x8000 - LOWEST) * 0x10001u) & ~(size + (0x8000 - LOWEST - SPAN) * 0x10001u);
            }
            if ((within & 0x80008000) != 0x80008000) {
                real v[VECTOR];
#pragma unroll
                for (int j = 0; j < VECTOR; j++) v[j] = __uint_as_float(j & 1 ? w[j / 2] & 0xffff0000 : w[j / 2] << 16);
                read(v, VECTOR, VECTOR * i);
                return;
            }
            float top = fmaxf(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000));
            if (top > best.m) {
#pragma unroll
                for (int j = VECTOR - 1; j >= 0; j--)
                    if (__uint_as_float(j & 1 ? w[j / 2] & 0xffff0000 : w[j / 2] << 16) == top) best.at = VECTOR * i + j;
                best.m = top;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 low = w[j] & 0xffff, high = w[j] >> 16;
                best.s += table[(int)low - (int)(low >> 15) * (0x8000 - SPAN) - LOWEST];
                // Shared memory is the bottleneck: one value in eight by arithmetic saves 8% of the time.
                best.s += j < 3 ? table[(int)high - (int)(high >> 15) * (0x8000 - SPAN) - LOWEST]
                                : exp_by_powers(__uint_as_float(w[j] & 0xffff0000));
            }
        };
#endif
        auto load = [&](int i, real* v) {
            uint4 loaded = __ldcs((const uint4*)values + i);
            const stored* part = (const stored*)&loaded;
#pragma unroll
            for (int j = 0; j < VECTOR; j++) v[j] = value_of(part[j]);
        };
#if HELD
        // a whole row in registers: its largest first, so that exponentials wait for nothing
        real v[HELD][VECTOR];
        real top = -infinity;
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            int i = lane + h * GROUP;
            if (i < n_columns / VECTOR) load(i, v[h]);
            else for (int j = 0; j < VECTOR; j++)
                v[h][j] = VECTOR * i + j < n_columns ? value_of(values[VECTOR * i + j]) : LOGITS ? -infinity : (real)0;
#pragma unroll
            for (int j = 0; j < VECTOR; j++) {
                if (v[h][j] > best.m) best.m = v[h][j], best.at = VECTOR * i + j;
                if (v[h][j] != v[h][j]) best.wrong |= NAN_VALUE;
                if (LOGITS ? v[h][j] == infinity : v[h][j] < 0 || v[h][j] > 1) best.wrong |= BAD_VALUE;
            }
        }
        top = best.m;
        for (int o = 16; o; o >>= 1) {
            real other = __shfl_xor_sync(~0u, top, o);
            top = other > top ? other : top;
        }
        best.at = best.m == top ? best.at : 0x7fffffff;
        best.m = top;
#if LOGITS
        if (top > -infinity) {
#pragma unroll
            for (int h = 0; h < HELD; h++)
#pragma unroll
                for (int j = 0; j < VECTOR; j++)
                    best.s += exp_below_zero((double)v[h][j] - (double)top, table, 16);
        }
#endif
#else
        int done = 0;
        if (aligned) {
            done = n_columns / VECTOR * VECTOR;
            for (int i = lane; i < n_columns / VECTOR; i += GROUP) {
#ifdef BY_WORDS
                read_words(i);
#else
                real v[VECTOR];
                load(i, v);
                read(v, VECTOR, VECTOR * i);
#endif
            }
        }
        for (int i = done + lane; i < n_columns; i += GROUP) {
            real v[1] = {value_of(values[i])};
            read(v, 1, i);
        }
#endif
        best = of_row(best, table);
        double total = best.s;
#if BY_BITS
        bool slow = (best.wrong & BEYOND) || best.m < -200;
        total = slow ? slow_sum(values, n_columns, lane, best.m) : best.s * exp(-(double)best.m);
        // of equal logits the share is a fraction: rounding of the sum must not move it off an edge
        if (fabs(total - rint(total)) < 4e-14 * total) total = rint(total);
#endif
        if (lane == 0) {
            u32 wrong = best.wrong & (NAN_VALUE | BAD_VALUE);
            label own = y[row];
            bool left_out = has_ignored && own == (label)ignored;
            if (!left_out) {
                if (!(best.m > -infinity)) wrong |= BAD_VALUE;
                bool known = (i64)own >= 0 && (i64)own < n_columns;
                if (wrong & NAN_VALUE) atomicAdd((u64*)state + MISSING, 1ull);
                else if (wrong) atomicAdd((u64*)state + IMPOSSIBLE, 1ull);
                if (!known) atomicAdd((u64*)state + UNKNOWN, 1ull);
                left_out = wrong || !known;
            }
            double share = LOGITS ? 1.0 / total : (double)best.m;
#if KEPT == 0
            if (!left_out) {
                u32 high, low;
                bool rounded = false;
                wide_halves(share, high, low, rounded);
                if (rounded) atomicAdd((u64*)state + ROUNDED, 1ull);
                int c = count_below(edges, 0, n_edges, 1, share);
                put_row((u64*)state + FLAGS + 14 * (2 * c + ((i64)own == best.at)), high, low);
            }
#else
            confidence[row] = share;
#endif
#if KEPT == 2
            largest[row] = best.m;
            code[row] = left_out ? -1 : (int)own;
#endif
        }
    }
}
#endif

#ifdef READ_EVENTS
// Rows of several events, a warp for each: every check. `code` becomes 0, or -1 if a row is left out.
extern "C" __global__ void read_events(
    const stored* __restrict__ x, i64 n, int n_columns, i64 stride, const label* __restrict__ y,
    i64 y_stride, int* __restrict__ code, i64* __restrict__ state, int has_ignored, i64 ignored)
{
    const int lane = threadIdx.x % 32;
    for (i64 row = (blockIdx.x * (i64)blockDim.x + threadIdx.x) / 32; row < n; row += gridDim.x * (i64)blockDim.x / 32) {
        bool missing = false, impossible = false, unknown = false, left_out = false;
        for (int k = lane; k < n_columns; k += 32) {
            real v = value_of(x[row * stride + k]);
            label own = y[row * y_stride + k];
            missing |= v != v;
            impossible |= !LOGITS && (v < 0 || v > 1);
            unknown |= own != 0 && own != 1;
            left_out |= has_ignored && own == (label)ignored;
        }
        missing = __any_sync(~0u, missing), impossible = __any_sync(~0u, impossible);
        unknown = __any_sync(~0u, unknown), left_out = __any_sync(~0u, left_out);
        if (lane == 0) {
            if (!left_out) {
                if (missing) atomicAdd((u64*)state + MISSING, 1ull);
                else if (impossible) atomicAdd((u64*)state + IMPOSSIBLE, 1ull);
                if (unknown) atomicAdd((u64*)state + UNKNOWN, 1ull);
            }
            code[row] = left_out || missing || impossible || unknown ? -1 : 0;
        }
    }
}
#endif

#if defined(COUNT_TABLE) || defined(PLACE_CELLS) || defined(DRAW_CUTS)
// the prediction of a class, after `read_rows` (or of one event, without)
__device__ __forceinline__ number prediction_of(stored given, double largest, double share, const double* table, bool alone) {
#if LOGITS
    if (alone) return 1.0 / (1.0 + exp(-(double)value_of(given)));
    return fmin(exp_below_zero((double)value_of(given) - largest, table, 1) * share, 1.0);
#else
    return value_of(given) + (number)0;
#endif
}
#endif

#ifdef COUNT_TABLE
// Every class by itself: a lane for each of 32 classes, a warp for each row. What did not happen is
// summed in shared memory (IN_SHARED 1), where every lane has a bank of its own; what did, one class
// of a row, goes to the state at once. Of EVENTS any number may happen: both are summed there.
#define OUTCOMES (1 + EVENTS)
extern "C" __global__ void count_table(
    const stored* __restrict__ x, i64 n, int n_columns, i64 stride,
    const double* __restrict__ share, const double* __restrict__ largest,
    const int* __restrict__ code, const label* __restrict__ y, i64 y_stride,
    const number* __restrict__ edges, int n_edges, int edge_rows,
    i64* __restrict__ state, int rows_of_block)
{
    extern __shared__ double memory[];
    const int lane = threadIdx.x, k = blockIdx.x * 32 + lane, cells = n_edges + 1;
    number* e = (number*)memory;
    double* table = (double*)(e + 32 * n_edges);
    u32* sums = (u32*)(table + (LOGITS ? TABLE : 0));
    const int thread = lane + 32 * threadIdx.y, threads = 32 * blockDim.y;
    for (int i = thread; i < 32 * n_edges; i += threads) {
        int group = blockIdx.x * 32 + i % 32;
        e[i] = edges[(i64)(edge_rows == 1 ? 0 : min(group, n_columns - 1)) * n_edges + i / 32];
    }
#if LOGITS
    fill_table(table, 1);
#endif
#if IN_SHARED
    for (int i = thread; i < 32 * cells * OUTCOMES * LIMBS; i += threads) sums[i] = 0;
#endif
    __syncthreads();
    u64* own = (u64*)state + FLAGS + (i64)k * cells * 28;
    const i64 from = (i64)blockIdx.y * rows_of_block;
    const i64 to = from + rows_of_block < n ? from + rows_of_block : n;
    u64 n_rounded = 0;
    for (i64 row = from + threadIdx.y; row < to; row += blockDim.y) {
        if (code[row] < 0 || k >= n_columns) continue;
        const bool happened = EVENTS ? y[row * y_stride + k] == 1 : code[row] == k, softmax = LOGITS && !EVENTS;
        number p = prediction_of(x[row * stride + k], softmax ? largest[row] : 0, softmax ? share[row] : 0, table, EVENTS);
        int c = count_below(e + lane, 0, n_edges, 32, p);
        u32 high, low;
        bool rounded = false;
        halves_of(p, high, low, rounded);
        n_rounded += rounded;
        if ((happened && !EVENTS) || !IN_SHARED) {
            put_row(own + 28 * c + 14 * happened, high, low);
        } else {
            u32* cell = sums + (c * OUTCOMES + (EVENTS && happened)) * LIMBS * 32 + lane;
            limbs_of(high, low, [&](int i, u32 limb) { atomicAdd(cell + 32 * i, limb); });
        }
    }
    if (n_rounded) atomicAdd((u64*)state + ROUNDED, n_rounded);
#if IN_SHARED
    __syncthreads();
    if (k < n_columns)
        for (int c = threadIdx.y; c < cells * OUTCOMES; c += blockDim.y) {
            u64 t[LIMBS];
#pragma unroll
            for (int i = 0; i < LIMBS; i++) t[i] = sums[(c * LIMBS + i) * 32 + lane];
            if (t[0]) put_limbs(own + 28 / OUTCOMES * c, t);
        }
#endif
}
#endif

#ifdef DRAW_CUTS
// Cuts of each class, a block of 1,024 threads for each: minus infinity, the distinct predictions of
// every `step`th row in rising order, and infinity from there on.
extern "C" __global__ void draw_cuts(
    const stored* __restrict__ x, i64 n, i64 stride, const double* __restrict__ share,
    const double* __restrict__ largest, const int* __restrict__ code, i64 step,
    number* __restrict__ cuts, int n_cuts)
{
    extern __shared__ double memory[];
    __shared__ u32 kept[32];
    double* table = memory;
    number* sorted = (number*)(table + TABLE);
    const int i = threadIdx.x, lane = i % 32;
    const i64 row = i * step;
    const number infinity = __int_as_float(0x7f800000);
#if LOGITS
    fill_table(table, 1);
#endif
    __syncthreads();
    number p = i == n_cuts - 1 ? -infinity : infinity;
    if (row < n && code[row] >= 0) {
        const bool softmax = LOGITS && !EVENTS;
        p = prediction_of(x[row * stride + blockIdx.x], softmax ? largest[row] : 0, softmax ? share[row] : 0, table, EVENTS);
    }
    sorted[i] = p;
    __syncthreads();
    for (int size = 2; size <= 1024; size *= 2)  // bitonic
        for (int gap = size / 2; gap; gap /= 2) {
            if ((i ^ gap) > i) {  // one thread of each pair reads and writes both
                number own = sorted[i], other = sorted[i ^ gap];
                if ((own > other) == !(i & size)) sorted[i] = other, sorted[i ^ gap] = own;
            }
            __syncthreads();
        }
    p = sorted[i];
    const bool is_new = i == 0 || p != sorted[i - 1];
    const u32 ballot = __ballot_sync(~0u, is_new);
    if (lane == 0) kept[i / 32] = __popc(ballot);
    __syncthreads();
    int place = __popc(ballot & ((1u << lane) - 1)), n_kept = 0;
    for (int w = 0; w < 32; w++) {
        place += w < i / 32 ? kept[w] : 0;
        n_kept += kept[w];
    }
    number* own_cuts = cuts + (i64)blockIdx.x * n_cuts;
    if (is_new && place < n_cuts) own_cuts[place] = p;
    if (i >= n_kept && i < n_cuts) own_cuts[i] = infinity;
}
#endif

#ifdef OPEN_CELLS
// Which cells of each class are to be listed, a block for each: those between cuts that hold a
// quantile, or lie beside a cut that does. Counts of the others become 0. `next` says where the list
// of a cell begins, -1 without one; `total` counts what is listed. Of each quantile, `held` says the
// cell that holds it, and the rows below that and up to it.
__device__ __forceinline__ void running_sums(u32* values, int n) {
    __shared__ u32 warps[32];
    const int own = (n + blockDim.x - 1) / blockDim.x, lane = threadIdx.x % 32;
    const int from = min(n, own * (int)threadIdx.x), to = min(n, from + own);
    u32 sum = 0;
    for (int i = from; i < to; i++) sum += values[i];
    u32 up_to = sum;
    for (int o = 1; o < 32; o *= 2) {
        u32 other = __shfl_up_sync(~0u, up_to, o);
        if (lane >= o) up_to += other;
    }
    if (lane == 31) warps[threadIdx.x / 32] = up_to;
    __syncthreads();
    u32 total = up_to - sum;
    for (int w = 0; w < threadIdx.x / 32; w++) total += warps[w];
    for (int i = from; i < to; i++) values[i] = total += values[i];
    __syncthreads();
}
extern "C" __global__ void open_cells(
    u32* __restrict__ counts, int n_cells, const i64* __restrict__ targets, int n_quantiles,
    int* __restrict__ next, i64* __restrict__ held, u64* __restrict__ total)
{
    extern __shared__ double memory[];
    __shared__ u32 first;
    u32 *above = (u32*)memory, *sizes = above + n_cells;
    u32* own_counts = counts + (i64)blockIdx.x * n_cells;
    int* own_next = next + (i64)blockIdx.x * n_cells;
    for (int c = threadIdx.x; c < n_cells; c += blockDim.x) above[c] = own_counts[c], sizes[c] = 0;
    __syncthreads();
    running_sums(above, n_cells);
    const i64 all = (i64)gridDim.x * n_quantiles;
    for (int q = threadIdx.x; q < n_quantiles; q += blockDim.x) {
        // minus and plus infinity are cuts, so every cell with rows has neighbours
        int cell = min(max(count_below((const u32*)above, 0, n_cells, 1, (u32)targets[q]), 1), n_cells - 2);
        i64* out = held + (i64)blockIdx.x * n_quantiles + q;
        out[0] = cell, out[all] = above[cell - 1], out[2 * all] = above[cell];
        if (cell & 1) sizes[cell - 1] = sizes[cell + 1] = 1;
        else sizes[cell] = 1;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < n_cells; c += blockDim.x) {
        own_next[c] = sizes[c] ? 0 : -1;
        sizes[c] = own_counts[c] = sizes[c] ? own_counts[c] : 0;
    }
    __syncthreads();
    running_sums(sizes, n_cells);
    if (threadIdx.x == 0) first = (u32)atomicAdd(total, (u64)sizes[n_cells - 1]);
    __syncthreads();
    for (int c = threadIdx.x; c < n_cells; c += blockDim.x)
        if (own_next[c] == 0) own_next[c] = first + sizes[c] - own_counts[c];
}
#endif

#ifdef PLACE_CELLS
// Count the predictions of each class in cells (LISTED 0), or list those in open cells (LISTED 1),
// for which `next` says where; it is -1 for the others.
// Cell 2 i + 1 holds the predictions equal to cut i, and cell 2 i those below it and above the last.
// A block reads TILE columns; of a single one, `first` tells where to search, as in `count_column`.
extern "C" __global__ void place_cells(
    const stored* __restrict__ x, i64 n, int n_columns, i64 stride,
    const double* __restrict__ share, const double* __restrict__ largest,
    const int* __restrict__ code, const number* __restrict__ cuts, int n_cuts,
    const unsigned short* __restrict__ first, int shift, u32* __restrict__ counts, int* __restrict__ next,
    number* __restrict__ values, i64* __restrict__ state)
{
    extern __shared__ double memory[];
    const int tile = threadIdx.x % TILE, k = blockIdx.x * TILE + tile, n_cells = 2 * n_cuts + 1;
    double* table = memory;
    number* own_cuts = (number*)(table + (LOGITS ? TABLE : 0));
    u32* own_counts = (u32*)(own_cuts + TILE * n_cuts);
    for (int i = threadIdx.x; i < TILE * n_cuts; i += blockDim.x) {
        int column = blockIdx.x * TILE + i % TILE;
        own_cuts[i] = cuts[(i64)min(column, n_columns - 1) * n_cuts + i / TILE];
    }
#if LOGITS
    fill_table(table, 1);
#endif
#if !LISTED
    for (int i = threadIdx.x; i < TILE * n_cells; i += blockDim.x) own_counts[i] = 0;
#endif
    __syncthreads();
    const int rows_at_once = blockDim.x / TILE;
    const i64 step = (i64)gridDim.y * rows_at_once;
    const i64 rounds = (n + step - 1) / step;
    i64 row = (i64)blockIdx.y * rows_at_once + threadIdx.x / TILE;
    u32 missing = 0, impossible = 0;
    for (i64 round = 0; round < rounds; round++, row += step) {
        bool here = row < n && k < n_columns && (TILE == 1 || code[row] >= 0);
        number p = 0;
        int c = 0;
        if (here) {
            const bool alone = TILE == 1 || EVENTS;
            p = prediction_of(x[row * stride + k], LOGITS && !alone ? largest[row] : 0, LOGITS && !alone ? share[row] : 0, table, alone);
            here = p >= 0 && p <= 1;
            missing += p != p;
            impossible += !here && p == p;
        }
        if (here) {
#if TILE == 1
            int bucket = __float_as_uint(LOGITS || TYPE == 3 ? __double2float_rd(p) : (float)p) >> shift;
            int below = count_below((const number*)own_cuts, (int)first[bucket], (int)first[bucket + 1], 1, p);
#else
            int below = count_below((const number*)own_cuts + tile, 0, n_cuts, TILE, p);
#endif
            c = 2 * below + (below < n_cuts && own_cuts[below * TILE + tile] == p);
        }
#if LISTED
        int* at = next + (i64)k * n_cells + c;
        if (here && *at >= 0) values[atomicAdd(at, 1)] = p;
#else
        if (here) atomicAdd(own_counts + c * TILE + tile, 1u);
#endif
    }
#if !LISTED
    if (missing) atomicAdd((u64*)state + MISSING, (u64)missing);
    if (impossible) atomicAdd((u64*)state + IMPOSSIBLE, (u64)impossible);
    __syncthreads();
    if (k < n_columns)
        for (int c = threadIdx.x / TILE; c < n_cells; c += rows_at_once) {
            u32 t = own_counts[c * TILE + tile];
            if (t) atomicAdd(counts + (i64)k * n_cells + c, t);
        }
#endif
}
#endif

#ifdef NEIGHBOURS
// What `bins.NearQuantiles` holds of one quantile, a block for each; lists have been written, so that
// `next` is where they end; `where` is `held` of `open_cells`. In a cell between two cuts, the value that holds the quantile is found by
// its bits: values are not negative, so these rise as they do. Five at a time are fixed, from those on
// that differ.
#if WIDE
typedef u64 key;
#define BITS_OF(x) (key)__double_as_longlong(x)
#define OF_BITS(x) __longlong_as_double((i64)(x))
#define LEADING_ZEROS(x) __clzll((i64)(x))
#else
typedef u32 key;
#define BITS_OF(x) __float_as_uint(x)
#define OF_BITS(x) (double)__uint_as_float(x)
#define LEADING_ZEROS(x) __clz((int)(x))
#endif
extern "C" __global__ void neighbours(
    const number* __restrict__ values, const number* __restrict__ cuts, int n_cuts,
    const int* __restrict__ sizes, const int* __restrict__ next, const i64* __restrict__ where,
    const i64* __restrict__ targets, int n_quantiles, i64 n_groups, double* __restrict__ out)
{
    __shared__ u32 counts[32], digit, skipped;
    __shared__ key least, greatest;
    const i64 group = blockIdx.x / n_quantiles;
    const int lane = threadIdx.x, quantile = blockIdx.x % n_quantiles;
    const i64 all = n_groups * n_quantiles, first_cell = group * (2 * n_cuts + 1);
    const i64 cell = where[blockIdx.x], before = where[all + blockIdx.x];
    const number* cut = cuts + group * n_cuts + cell / 2;
    // the least key of a cell from `from` on, and the greatest up to `to`
    auto bounds = [&](const number* own, int n, key from, key to) {
        __syncthreads();
        if (lane == 0) least = ~(key)0, greatest = 0;
        __syncthreads();
        key low = ~(key)0, high = 0;
        for (int i = lane; i < n; i += blockDim.x) {
            key k = BITS_OF(own[i]);
            if (k >= from && k < low) low = k;
            if (k <= to && k > high) high = k;
        }
        atomicMin(&least, low);
        atomicMax(&greatest, high);
        __syncthreads();
    };
    auto list = [&](i64 c) { return values + next[first_cell + c] - sizes[first_cell + c]; };
    double lower = cut[-1], held = cut[0], upper = cut[cell & 1];
    i64 below = before, up_to = where[2 * all + blockIdx.x];
    if (cell & 1) {  // a cut: its neighbours are in the cells beside it
        int n = sizes[first_cell + cell - 1];
        bounds(list(cell - 1), n, 0, ~(key)0);
        if (n) lower = OF_BITS(greatest);
        n = sizes[first_cell + cell + 1];
        bounds(list(cell + 1), n, 0, ~(key)0);
        if (n) upper = OF_BITS(least);
    } else {
        const number* own = list(cell);
        const int n = sizes[first_cell + cell];
        bounds(own, n, 0, ~(key)0);
        int shift = least == greatest ? 0 : 8 * (int)sizeof(key) - LEADING_ZEROS(least ^ greatest);
        key prefix = least >> shift;  // no value has a sign, so a bit is left
        u32 left = targets[quantile] - before - 1, equal = n;
        while (shift > 0) {
            int bits = min(shift, 5);
            shift -= bits;
            if (lane < 32) counts[lane] = 0;
            __syncthreads();
            for (int i = lane; i < n; i += blockDim.x) {
                key k = BITS_OF(own[i]) >> shift;
                if (k >> bits == prefix) atomicAdd(counts + (k & ((1 << bits) - 1)), 1u);
            }
            __syncthreads();
            if (lane < 32) {
                u32 sum = counts[lane];
                for (int o = 1; o < 32; o *= 2) {
                    u32 other = __shfl_up_sync(~0u, sum, o);
                    if (lane >= o) sum += other;
                }
                u32 fewer = sum - counts[lane];
                if (fewer <= left && left < sum) digit = lane, skipped = fewer;
            }
            __syncthreads();
            prefix = prefix << bits | digit;
            left -= skipped;
            equal = counts[digit];
            __syncthreads();
        }
        below = targets[quantile] - 1 - left;
        up_to = below + equal;
        held = OF_BITS(prefix);
        bounds(own, n, prefix + 1, prefix ? prefix - 1 : 0);
        if (below > before) lower = OF_BITS(greatest);
        if (up_to < before + n) upper = OF_BITS(least);
    }
    if (lane < 5) {
        const double found[] = {lower, held, upper, (double)below, (double)up_to};
        out[lane * all + blockIdx.x] = found[lane];
    }
}
#endif

#ifdef FINISH
// Sums of each bin from those of its cells, a thread for each bin, as `ExactSums.sums` does: sums of 1,
// p and p^2 of both outcomes, the level (NaN without one), and 1 where sums may not tell it. All
// factors are powers of two, so fused products round as others do. `out` begins with the flags of the
// state, and how many cells have too many rows for products of 64 bits.
#define CARRY(i) (t[(i) + 1] += t[i] >> 21, t[i] &= LOW21)
// whether n whole numbers below 2^31 are all equal, and to what, from the limbs of sum and squares
__device__ __forceinline__ bool one_value(i64 n, const i64* l, i64& mean) {
    i64 total = l[0] + (l[1] << 21);
    mean = total / n;
    i64 square = mean * mean, low = n * (square & LOW21);
    i64 middle = n * (square >> 21 & LOW21) + (low >> 21), high = n * (square >> 42) + (middle >> 21);
    return n * mean == total && l[2] == (i64)(low & LOW21) && l[3] == (i64)(middle & LOW21) && l[4] == high;
}
extern "C" __global__ void finish(
    const i64* __restrict__ state, i64 n_groups, int n_cells, int n_bins, const int* __restrict__ bin,
    const int* __restrict__ exponent, int layouts, double* __restrict__ out)
{
    const i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (at < FLAGS) out[at] = state[at];
    if (at >= n_groups * n_bins) return;
    const i64 group = at / n_bins, layout = layouts == 1 ? 0 : group * n_cells;
    const double nan = __longlong_as_double(0x7ff8000000000000), half = 1.0 / 2147483648.0, unit = 2097152.0;
    double sums[6] = {0, 0, 0, 0, 0, 0}, level = nan, unclear = 0;
    bool has_rows = false;
    for (int c = 0; c < n_cells; c++) {
        if (bin[layout + c] != at % n_bins) continue;
        const int e = exponent[layout + c];
        for (int outcome = 0; outcome < 2; outcome++) {
            const i64* cell = state + FLAGS + ((group * n_cells + c) * 2 + outcome) * 14;
            i64 t[14];
            for (int i = 0; i < 14; i++) t[i] = cell[i];
            if (t[0] == 0) continue;
            CARRY(1), CARRY(3), CARRY(4), CARRY(6), CARRY(8), CARRY(9), CARRY(11), CARRY(12);
            const double high = t[1] + unit * t[2], low = t[6] + unit * t[7];
            const double high_square = t[3] + unit * t[4] + unit * unit * t[5];
            const double low_square = t[8] + unit * t[9] + unit * unit * t[10];
            const double product = t[11] + unit * t[12] + unit * unit * t[13];
            const double scale = ldexp(half, -e);
            sums[3 * outcome] += t[0];
            sums[3 * outcome + 1] += (high + half * low) * scale;
            sums[3 * outcome + 2] += (high_square + 2 * half * product + half * half * low_square) * (scale * scale);
            double own = nan;
            if (t[0] >= 1ll << 31) {
                atomicAdd(out + FLAGS, 1.0);
            } else {
                i64 upper, lower;
                if (one_value(t[0], t + 1, upper) & one_value(t[0], t + 6, lower))
                    own = ldexp((double)((upper << 31) + lower), -62 - e);
            }
            level = !has_rows || own == level ? own : nan;
            has_rows = true;
            if (e >= 144) unclear = 1;
        }
    }
    double* own = out + 8 + 8 * at;
    for (int i = 0; i < 6; i++) own[i] = sums[i];
    own[6] = level, own[7] = unclear;
}
#endif

#ifdef ROW_MOMENTS
// A warp for each row of log-scores z, less the largest: the log of the total of exp(beta z), and
// the mean and variance of z under it. Probabilities are mixed with a share of the even
// distribution, or kept above 1e-12.
extern "C" __global__ void row_moments(
    const stored* __restrict__ x, i64 n, int n_columns, i64 stride, double beta, double share,
    double* __restrict__ out)
{
    extern __shared__ double memory[];
    fill_table(memory, 16);
    const double* table = memory + (threadIdx.x & 15);
    __syncthreads();
    auto score = [&](real v) -> double {
        if (LOGITS) return v;
        double p = v;
        return log(share > 0 ? p + (1.0 / n_columns - p) * share : fmax(p, 1e-12));
    };
    const int lane = threadIdx.x % 32;
    for (i64 row = (blockIdx.x * (i64)blockDim.x + threadIdx.x) / 32; row < n; row += gridDim.x * (i64)blockDim.x / 32) {
        const stored* values = x + row * stride;
        real m = value_of(values[0]);
        for (int i = lane; i < n_columns; i += 32) {
            real v = value_of(values[i]);
            m = v > m ? v : m;
        }
        for (int o = 16; o; o >>= 1) {
            real other = __shfl_xor_sync(~0u, m, o);
            m = other > m ? other : m;
        }
        double top = score(m), total = 0, first = 0, second = 0;
        for (int i = lane; i < n_columns; i += 32) {
            double z = score(value_of(values[i])) - top;
            double e = exp_below_zero(beta * z, table, 16);
            total += e, first += e * z, second += e * z * z;
        }
        for (int o = 16; o; o >>= 1) {
            total += __shfl_xor_sync(~0u, total, o);
            first += __shfl_xor_sync(~0u, first, o);
            second += __shfl_xor_sync(~0u, second, o);
        }
        if (lane == 0) {
            double mean = first / total;
            out[row] = log(total), out[n + row] = mean, out[2 * n + row] = second / total - mean * mean;
        }
    }
}
#endif
