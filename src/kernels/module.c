/* The Python side of calibrant._kernels: takes arrays as buffers, checks that they fit together, lets go of the
   interpreter's lock and runs a loop. calibrant/_kernels.pyi says what each function takes.

   Written against the stable ABI, so that one build serves Python 3.11 and all later ones, and against the buffer
   protocol, so that it needs no headers of NumPy. */

#ifndef Py_LIMITED_API
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030B0000
#endif
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

#define MOST_ARRAYS 12
#define ALIGNMENT 64
#define MOST_COPIED 128 /* cells that have four copies: these fill half of the nearest cache. Affects speed only. */

static const Form *form; /* the form in use */

typedef struct {
    Py_buffer views[MOST_ARRAYS];
    int n;
} Arrays;

static void release(Arrays *arrays)
{
    while (arrays->n > 0)
        PyBuffer_Release(&arrays->views[--arrays->n]);
}

/* Which type the items of a buffer have; -1 for one that the loops do not read. */
static int type_of(const Py_buffer *view)
{
    const char *format = view->format == NULL ? "B" : view->format;
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (strlen(format) != 1)
        return -1;
    const int size = view->itemsize == 1 ? 0 : view->itemsize == 2 ? 1 : view->itemsize == 4 ? 2 : 3;
    if (*format == 'f' || *format == 'd')
        return *format == 'f' ? F32 : F64;
    if (strchr("bhilq", *format))
        return I8 + size;
    if (strchr("?BHILQ", *format))
        return U8 + size;
    return -1;
}

/* Hold the buffer of an array of one of the given types (bits 1 << type) and dimensions, or set an exception. */
static Py_buffer *take(Arrays *arrays, PyObject *object, const char *name, unsigned types, int ndim, int flags)
{
    Py_buffer *view = &arrays->views[arrays->n];
    if (PyObject_GetBuffer(object, view, flags | PyBUF_FORMAT) < 0)
        return NULL;
    arrays->n++;
    const int type = type_of(view);
    if (type < 0 || !(types >> type & 1) || view->ndim != ndim) {
        PyErr_Format(PyExc_TypeError, "%s: an array of %d dimensions of another type is needed; got format %s", name,
                     ndim, view->format == NULL ? "B" : view->format);
        return NULL;
    }
    return view;
}

#define FLOATS (1u << F32 | 1u << F64)
#define NUMBERS ((1u << (U64 + 1)) - 1)
#define ANY_STRIDE PyBUF_STRIDES
#define READ PyBUF_C_CONTIGUOUS
#define WRITE (PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)

static int64_t size_of(const Py_buffer *view)
{
    return view->len / view->itemsize;
}

static Values values_of(const Py_buffer *view)
{
    Values values = {view->buf, view->strides[0], 0, view->shape[0], 0, (enum Type)type_of(view)};
    if (view->ndim == 2) {
        values.n_columns = view->shape[1];
        values.column_stride = view->strides[1];
    }
    return values;
}

static int refuse(const char *what)
{
    PyErr_Format(PyExc_ValueError, "The arrays do not fit together: %s.", what);
    return -1;
}

/* Take labels and, where they are not None, weights and groups: one for each row. */
static int take_rows(Arrays *arrays, PyObject *probs, int ndim, PyObject *labels, PyObject *weights,
                     PyObject *groups, Rows *rows)
{
    Py_buffer *view = take(arrays, probs, "probs", FLOATS, ndim, ANY_STRIDE);
    if (view == NULL)
        return -1;
    rows->probs = values_of(view);
    if (ndim == 2 && rows->probs.n_columns < 1)
        return refuse("there is no column");
    if ((view = take(arrays, labels, "labels", NUMBERS, 1, ANY_STRIDE)) == NULL)
        return -1;
    rows->labels = values_of(view);
    if (rows->labels.n_rows != rows->probs.n_rows)
        return refuse("labels");
    if (weights != Py_None) {
        if ((view = take(arrays, weights, "weights", 1u << F64, 1, ANY_STRIDE)) == NULL)
            return -1;
        rows->weights = values_of(view);
        if (rows->weights.n_rows != rows->probs.n_rows)
            return refuse("weights");
    }
    if (groups != NULL && groups != Py_None) {
        if ((view = take(arrays, groups, "groups", NUMBERS, 1, ANY_STRIDE)) == NULL)
            return -1;
        rows->groups = values_of(view);
        if (rows->groups.n_rows != rows->probs.n_rows)
            return refuse("groups");
    }
    return 0;
}

/* Take the tuple (even, edges, grids, scales, shift, steps, n_bins) of Lookup.arguments for so many columns. */
static int take_lookup(Arrays *arrays, PyObject *tuple, int64_t n_columns, Lookup *lookup)
{
    PyObject *edges, *grids, *scales, *shift;
    int even, steps, n_bins;
    if (!PyArg_ParseTuple(tuple, "iOOOOii", &even, &edges, &grids, &scales, &shift, &steps, &n_bins))
        return -1;
    const Py_buffer *of_edges = take(arrays, edges, "edges", 1u << F64, 1, READ);
    const Py_buffer *of_grids = of_edges ? take(arrays, grids, "grids", 1u << I64, 2, READ) : NULL;
    const Py_buffer *of_scales = of_grids ? take(arrays, scales, "scales", 1u << F64, 1, READ) : NULL;
    const Py_buffer *of_shift = of_scales ? take(arrays, shift, "shift", 1u << I64, 1, READ) : NULL;
    if (of_shift == NULL)
        return -1;
    *lookup = (Lookup){even, of_edges->buf, of_grids->buf, of_scales->buf, of_shift->buf, of_grids->shape[0],
                       of_grids->shape[1], steps, n_bins};
    if (lookup->n_grids != 1 && lookup->n_grids != n_columns)
        return refuse("grids");
    if (lookup->grid_size < 1 || size_of(of_scales) < n_columns || size_of(of_shift) < n_columns)
        return refuse("scales and shift");
    if (steps < 0 || steps > 30 || even < 0 || even > n_bins || size_of(of_edges) > INT32_MAX / 2)
        return refuse("edges");
    return 0;
}

/* Make scratch buffers for cells of so many lanes; `sums` and `level` are what Python gave. */
static int take_sums(Arrays *arrays, PyObject *out, PyObject *level, int64_t n_cells, int64_t row, int several,
                     int weighted, Sums *sums, void **memory)
{
    sums->n_cells = n_cells;
    sums->lanes = weighted ? 8 : 4;
    sums->copies = several && !weighted && n_cells <= MOST_COPIED ? 4 : 1;
    const int64_t size = n_cells * sums->lanes;
    if (n_cells > INT32_MAX / 2)
        return refuse("more cells than can be numbered");
    const Py_buffer *totals = take(arrays, out, "sums", 1u << F64, 2, WRITE);
    if (totals == NULL)
        return -1;
    if (totals->shape[0] != n_cells || totals->shape[1] != sums->lanes)
        return refuse("sums");
    sums->totals = totals->buf;
    if (level != Py_None) {
        const Py_buffer *levels = take(arrays, level, "level", 1u << F64, 1, WRITE);
        if (levels == NULL)
            return -1;
        if (2 * levels->shape[0] != n_cells)
            return refuse("level");
        sums->level = levels->buf;
    }
    const size_t doubles = (size_t)((sums->copies + 1) * size + 2 * row) + ALIGNMENT / sizeof(double);
    *memory = calloc(doubles, sizeof(double));
    if (*memory == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    sums->parts = (double *)(((uintptr_t)*memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    sums->lost = sums->parts + sums->copies * size;
    sums->row = sums->lost + size;
    return 0;
}

static PyObject *count(PyObject *arguments, int by_class)
{
    PyObject *probs, *labels, *weights, *groups, *tuple, *out, *level, *result = NULL;
    int n_groups, n_classes, first, are_logits;
    if (!PyArg_ParseTuple(arguments, "OOOOiiipOOO", &probs, &labels, &weights, &groups, &n_groups, &n_classes,
                          &first, &are_logits, &tuple, &out, &level))
        return NULL;
    Arrays arrays = {.n = 0};
    Rows rows = {.n_groups = n_groups, .n_classes = n_classes, .first = first, .are_logits = are_logits};
    Lookup lookup;
    Sums sums = {0};
    void *memory = NULL;
    /* A single column is read as such, and the largest value of each row from a table. */
    PyObject *ndim = PyObject_GetAttrString(probs, "ndim");
    const long dimensions = ndim == NULL ? -1 : PyLong_AsLong(ndim);
    Py_XDECREF(ndim);
    if (PyErr_Occurred())
        return NULL;
    if (take_rows(&arrays, probs, dimensions == 1 ? 1 : 2, labels, weights, groups, &rows) < 0)
        goto done;
    const int64_t n_columns = by_class ? rows.probs.n_columns : 1;
    if (take_lookup(&arrays, tuple, n_columns, &lookup) < 0)
        goto done;
    if ((by_class && dimensions != 2) || n_classes < 1 || n_groups < 1) {
        refuse("classes or groups");
        goto done;
    }
    const int64_t n_cells = 2 * n_columns * lookup.n_bins * n_groups;
    if (take_sums(&arrays, out, level, n_cells, rows.probs.n_columns, !by_class, weights != Py_None, &sums,
                  &memory) < 0)
        goto done;
    int status;
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    status = by_class ? own->count_classes(&rows, &lookup, &sums) : own->count_column(&rows, &lookup, &sums);
    for (int64_t i = 0; i < n_cells * sums.lanes; i++)
        sums.totals[i] -= sums.lost[i];
    Py_END_ALLOW_THREADS
    result = PyLong_FromLong(status);
done:
    free(memory);
    release(&arrays);
    return result;
}

static PyObject *count_column(PyObject *module, PyObject *arguments)
{
    (void)module;
    return count(arguments, 0);
}

static PyObject *count_classes(PyObject *module, PyObject *arguments)
{
    (void)module;
    return count(arguments, 1);
}

static PyObject *sum_influences(PyObject *module, PyObject *arguments)
{
    PyObject *probs, *labels, *weights, *tuple, *slope, *offset, *out, *result = NULL;
    Influence influence;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOO(ddd)O", &probs, &labels, &weights, &tuple, &slope, &offset,
                          &influence.mean_a, &influence.mean_m, &influence.mean_weight, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    Rows rows = {.n_groups = 1};
    Lookup lookup;
    if (take_rows(&arrays, probs, 2, labels, weights, NULL, &rows) < 0 ||
        take_lookup(&arrays, tuple, rows.probs.n_columns, &lookup) < 0)
        goto done;
    if (rows.probs.n_columns > INT32_MAX / 2) {
        refuse("columns");
        goto done;
    }
    rows.n_classes = (int32_t)rows.probs.n_columns;
    const Py_buffer *of_slope = take(&arrays, slope, "slope", 1u << F64, 1, READ);
    const Py_buffer *of_offset = of_slope ? take(&arrays, offset, "offset", 1u << F64, 1, READ) : NULL;
    const Py_buffer *of_out = of_offset ? take(&arrays, out, "sums", 1u << F64, 1, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    const int64_t n_bins = rows.probs.n_columns * lookup.n_bins;
    if (size_of(of_slope) != n_bins || size_of(of_offset) != n_bins || size_of(of_out) != 6) {
        refuse("slope, offset or sums");
        goto done;
    }
    influence.slope = of_slope->buf;
    influence.offset = of_offset->buf;
    influence.sums = of_out->buf;
    int status;
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    status = own->sum_influences(&rows, &lookup, &influence);
    Py_END_ALLOW_THREADS
    result = PyLong_FromLong(status);
done:
    release(&arrays);
    return result;
}

static PyObject *levels(PyObject *module, PyObject *arguments)
{
    PyObject *sums, *out, *result = NULL;
    int weighted;
    double rounding;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OpdO", &sums, &weighted, &rounding, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_sums = take(&arrays, sums, "sums", 1u << F64, 2, READ);
    const Py_buffer *of_out = of_sums ? take(&arrays, out, "out", 1u << F64, 1, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    if (of_sums->shape[0] != 2 * of_out->shape[0] || of_sums->shape[1] < 4) {
        refuse("sums and levels");
        goto done;
    }
    const int unclear = find_levels(of_sums->buf, of_out->shape[0], (int)of_sums->shape[1], weighted, rounding,
                                    of_out->buf);
    result = PyBool_FromLong(unclear);
done:
    release(&arrays);
    return result;
}

static PyObject *top_values(PyObject *module, PyObject *arguments)
{
    PyObject *probs, *out, *result = NULL;
    int are_logits;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OpO", &probs, &are_logits, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_probs = take(&arrays, probs, "probs", FLOATS, 2, ANY_STRIDE);
    const Py_buffer *of_out = of_probs ? take(&arrays, out, "out", FLOATS, 1, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    const Values values = values_of(of_probs);
    if (size_of(of_out) != values.n_rows || values.n_columns < 1) {
        refuse("out");
        goto done;
    }
    double *scratch = malloc((size_t)(2 * values.n_columns) * sizeof(double));
    if (scratch == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    int status;
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    status = own->top_values(&values, are_logits, scratch, of_out->buf, (enum Type)type_of(of_out));
    Py_END_ALLOW_THREADS
    free(scratch);
    result = PyLong_FromLong(status);
done:
    release(&arrays);
    return result;
}

static PyObject *transpose(PyObject *module, PyObject *arguments)
{
    PyObject *probs, *out, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &probs, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_probs = take(&arrays, probs, "probs", FLOATS, 2, ANY_STRIDE);
    const Py_buffer *of_out = of_probs ? take(&arrays, out, "out", FLOATS, 2, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    const Values values = values_of(of_probs);
    if (type_of(of_out) != type_of(of_probs) || of_out->shape[0] != values.n_columns ||
        of_out->shape[1] != values.n_rows) {
        refuse("out");
        goto done;
    }
    int status;
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    status = own->transpose(&values, of_out->buf, values.n_rows);
    Py_END_ALLOW_THREADS
    result = PyLong_FromLong(status);
done:
    release(&arrays);
    return result;
}

static PyObject *count_cells(PyObject *module, PyObject *arguments)
{
    PyObject *probs, *counts, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &probs, &counts))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_probs = take(&arrays, probs, "probs", FLOATS, 1, ANY_STRIDE);
    const Py_buffer *of_counts = of_probs ? take(&arrays, counts, "counts", 1u << U32, 1, WRITE) : NULL;
    if (of_counts == NULL)
        goto done;
    const Values values = values_of(of_probs);
    if (of_counts->shape[0] < 1 || of_counts->shape[0] > INT32_MAX) {
        refuse("counts");
        goto done;
    }
    int status;
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    status = own->count_cells(&values, of_counts->buf, of_counts->shape[0]);
    Py_END_ALLOW_THREADS
    result = PyLong_FromLong(status);
done:
    release(&arrays);
    return result;
}

static PyObject *pick_cells(PyObject *module, PyObject *arguments)
{
    PyObject *probs, *marked, *out, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO", &probs, &marked, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_probs = take(&arrays, probs, "probs", FLOATS, 1, ANY_STRIDE);
    const Py_buffer *of_marked = of_probs ? take(&arrays, marked, "marked", 1u << U8, 1, READ) : NULL;
    const Py_buffer *of_out = of_marked ? take(&arrays, out, "out", 1u << F64, 1, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    const Values values = values_of(of_probs);
    if (of_marked->shape[0] < 1 || of_marked->shape[0] > INT32_MAX) {
        refuse("marked");
        goto done;
    }
    int64_t found;
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    found = own->pick_cells(&values, of_marked->buf, of_marked->shape[0], of_out->buf, of_out->shape[0]);
    Py_END_ALLOW_THREADS
    result = PyLong_FromLongLong(found);
done:
    release(&arrays);
    return result;
}

static PyObject *near_quantiles_of(PyObject *module, PyObject *arguments)
{
    PyObject *ordered, *values, *mass, *result = NULL;
    Py_ssize_t n_bins;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OnOO", &ordered, &n_bins, &values, &mass))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_ordered = take(&arrays, ordered, "ordered", FLOATS, 1, READ);
    const Py_buffer *of_values = of_ordered ? take(&arrays, values, "values", 1u << F64, 1, WRITE) : NULL;
    const Py_buffer *of_mass = of_values ? take(&arrays, mass, "mass", 1u << F64, 1, WRITE) : NULL;
    if (of_mass == NULL)
        goto done;
    if (n_bins < 1 || of_values->shape[0] / 3 < n_bins || of_mass->shape[0] / 3 < n_bins || size_of(of_ordered) < 1) {
        refuse("values and mass");
        goto done;
    }
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = near_quantiles(of_ordered->buf, (enum Type)type_of(of_ordered), size_of(of_ordered), n_bins, of_values->buf,
                           of_mass->buf);
    Py_END_ALLOW_THREADS
    result = PyLong_FromLongLong(found);
done:
    release(&arrays);
    return result;
}

static PyObject *logistic_sums(PyObject *module, PyObject *arguments)
{
    PyObject *first, *second, *events, *out, *result = NULL;
    double theta[3];
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO(ddd)O", &first, &second, &events, &theta[0], &theta[1], &theta[2], &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_second = NULL;
    const Py_buffer *of_first = take(&arrays, first, "first", 1u << F64, 1, READ);
    const Py_buffer *of_events = of_first ? take(&arrays, events, "events", 1u << F64, 1, READ) : NULL;
    const Py_buffer *of_out = of_events ? take(&arrays, out, "out", 1u << F64, 1, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    if (second != Py_None && (of_second = take(&arrays, second, "second", 1u << F64, 1, READ)) == NULL)
        goto done;
    const int64_t n = size_of(of_events);
    if (size_of(of_first) != n || (of_second != NULL && size_of(of_second) != n) || size_of(of_out) != 10) {
        refuse("features and events");
        goto done;
    }
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    own->logistic_sums(of_first->buf, of_second == NULL ? NULL : of_second->buf, of_events->buf, n, theta,
                       of_out->buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(&arrays);
    return result;
}

static PyObject *distinct(PyObject *module, PyObject *arguments)
{
    PyObject *keys, *events, *counts, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO", &keys, &events, &counts))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_keys = take(&arrays, keys, "keys", 1u << U64, 1, WRITE);
    const Py_buffer *of_events = of_keys ? take(&arrays, events, "events", 1u << F64, 1, WRITE) : NULL;
    const Py_buffer *of_counts = of_events ? take(&arrays, counts, "counts", 1u << F64, 1, WRITE) : NULL;
    if (of_counts == NULL)
        goto done;
    const int64_t n = size_of(of_keys);
    if (size_of(of_events) != n || size_of(of_counts) != n) {
        refuse("keys, events and counts");
        goto done;
    }
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = distinct_scores(of_keys->buf, n, of_events->buf, of_counts->buf);
    Py_END_ALLOW_THREADS
    result = PyLong_FromLongLong(found);
done:
    release(&arrays);
    return result;
}

static PyObject *pool_scores(PyObject *module, PyObject *arguments)
{
    PyObject *objects[5], *result = NULL;
    static const char *const names[5] = {"keys", "first", "weight", "events", "total"};
    static const unsigned types[5] = {1u << U64, 1u << I64, 1u << F64, 1u << F64, 1u << F64};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOO", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4]))
        return NULL;
    Arrays arrays = {.n = 0};
    for (int i = 0; i < 5; i++) {
        if (take(&arrays, objects[i], names[i], types[i], 1, i == 0 ? READ : WRITE) == NULL)
            goto done;
        if (arrays.views[i].shape[0] != arrays.views[0].shape[0]) {
            refuse(names[i]);
            goto done;
        }
    }
    const Py_buffer *views = arrays.views;
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = pool(views[0].buf, views[0].shape[0], views[1].buf, views[2].buf, views[3].buf, views[4].buf);
    Py_END_ALLOW_THREADS
    result = PyLong_FromLongLong(found);
done:
    release(&arrays);
    return result;
}

static PyObject *slopes_of_tangents(PyObject *module, PyObject *arguments)
{
    PyObject *objects[3], *result = NULL;
    static const char *const names[3] = {"x", "y", "slopes"};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO", &objects[0], &objects[1], &objects[2]))
        return NULL;
    Arrays arrays = {.n = 0};
    for (int i = 0; i < 3; i++) {
        if (take(&arrays, objects[i], names[i], 1u << F64, 1, i < 2 ? READ : WRITE) == NULL)
            goto done;
        if (arrays.views[i].shape[0] != arrays.views[0].shape[0]) {
            refuse(names[i]);
            goto done;
        }
    }
    const Py_buffer *views = arrays.views;
    int64_t *hull = malloc((size_t)(views[0].shape[0] + 1) * sizeof *hull);
    if (hull == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    tangent_slopes(views[0].buf, views[1].buf, views[0].shape[0], hull, views[2].buf);
    Py_END_ALLOW_THREADS
    free(hull);
    result = Py_NewRef(Py_None);
done:
    release(&arrays);
    return result;
}

static PyObject *hash(PyObject *module, PyObject *arguments)
{
    PyObject *rows, *codes, *factors, *out, *result = NULL;
    unsigned long long mix, odd, bound;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOKKKO", &rows, &codes, &factors, &mix, &odd, &bound, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_rows = take(&arrays, rows, "rows", FLOATS, 2, ANY_STRIDE);
    const Py_buffer *of_codes = of_rows ? take(&arrays, codes, "codes", 1u << I64, 1, READ) : NULL;
    const Py_buffer *of_factors = of_codes ? take(&arrays, factors, "factors", 1u << U64, 1, READ) : NULL;
    const Py_buffer *of_out = of_factors ? take(&arrays, out, "out", 1u << U64, 1, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    const Values values = values_of(of_rows);
    if (size_of(of_codes) != values.n_rows || size_of(of_out) != values.n_rows ||
        size_of(of_factors) != values.n_columns + 1) {
        refuse("codes, factors or out");
        goto done;
    }
    const uint64_t mixers[2] = {mix, odd};
    uint64_t checksum;
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = hash_rows(&values, of_codes->buf, of_factors->buf, mixers, bound, of_out->buf, &checksum);
    Py_END_ALLOW_THREADS
    result = Py_BuildValue("KL", (unsigned long long)checksum, (long long)found);
done:
    release(&arrays);
    return result;
}

static PyObject *exps(PyObject *module, PyObject *values)
{
    PyObject *result = NULL;
    (void)module;
    Arrays arrays = {.n = 0};
    const Py_buffer *view = take(&arrays, values, "values", 1u << F64, 1, WRITE);
    if (view != NULL) {
        form->exps(view->buf, view->shape[0]);
        result = Py_NewRef(Py_None);
    }
    release(&arrays);
    return result;
}

static PyObject *even_cells(PyObject *module, PyObject *arguments)
{
    PyObject *values, *cells, *result = NULL;
    int n_bins;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OiO", &values, &n_bins, &cells))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_values = take(&arrays, values, "values", 1u << F64, 1, READ);
    const Py_buffer *of_cells = of_values ? take(&arrays, cells, "cells", 1u << I32, 1, WRITE) : NULL;
    if (of_cells == NULL)
        goto done;
    if (size_of(of_cells) != size_of(of_values)) {
        refuse("cells");
        goto done;
    }
    form->even_bins(of_values->buf, size_of(of_values), n_bins, of_cells->buf);
    result = Py_NewRef(Py_None);
done:
    release(&arrays);
    return result;
}

static PyObject *block_weights(PyObject *module, PyObject *arguments)
{
    PyObject *objects[7], *out, *result = NULL;
    static const char *const names[7] = {"at", "top", "heavy", "light", "length", "tilt", "scale"};
    Py_ssize_t first;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOn", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &objects[5], &objects[6], &out, &first))
        return NULL;
    Arrays arrays = {.n = 0};
    for (int i = 0; i < 7; i++) {
        if (take(&arrays, objects[i], names[i], 1u << F64, 1, READ) == NULL)
            goto done;
        if (arrays.views[i].shape[0] != arrays.views[i < 5 ? 0 : 5].shape[0]) {
            refuse(names[i]);
            goto done;
        }
    }
    const Py_buffer *views = arrays.views, *of_out = take(&arrays, out, "out", 1u << F64, 2, WRITE);
    if (of_out == NULL)
        goto done;
    const int64_t n_nodes = views[5].shape[0];
    if (of_out->shape[0] != views[0].shape[0] || first < 0 || first > of_out->shape[1] - n_nodes) {
        refuse("out");
        goto done;
    }
    const Blocks blocks = {views[0].buf, views[1].buf, views[2].buf, views[3].buf, views[4].buf,
                           views[0].shape[0], of_out->shape[1]};
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    own->block_weights(&blocks, views[5].buf, views[6].buf, n_nodes, (double *)of_out->buf + first);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(&arrays);
    return result;
}

static PyObject *add_rows(PyObject *module, PyObject *arguments)
{
    PyObject *weight, *cells, *share, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO", &weight, &cells, &share))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_weight = take(&arrays, weight, "weight", 1u << F64, 2, READ);
    const Py_buffer *of_cells = of_weight ? take(&arrays, cells, "cells", 1u << I64, 1, READ) : NULL;
    const Py_buffer *of_share = of_cells ? take(&arrays, share, "share", 1u << F64, 2, WRITE) : NULL;
    if (of_share == NULL)
        goto done;
    if (of_cells->shape[0] != of_weight->shape[0] || of_share->shape[1] != of_weight->shape[1]) {
        refuse("cells or share");
        goto done;
    }
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    own->add_rows(of_weight->buf, of_weight->shape[0], of_weight->shape[1], of_cells->buf, of_share->buf,
                  of_share->shape[0]);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(&arrays);
    return result;
}

static PyObject *tail_step(PyObject *module, PyObject *arguments)
{
    PyObject *before, *share, *above, *rows, *needed, *lines[4], *log_mean, *tops, *result = NULL;
    static const char *const names[4] = {"log_scale", "left", "right", "bulge"};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOO", &before, &share, &above, &rows, &needed, &lines[0], &lines[1],
                          &lines[2], &lines[3], &log_mean, &tops))
        return NULL;
    Arrays arrays = {.n = 0};
    double *padded = NULL;
    const Py_buffer *of_before = take(&arrays, before, "before", 1u << F64, 1, READ);
    const Py_buffer *of_share = of_before ? take(&arrays, share, "share", 1u << F64, 2, READ) : NULL;
    const Py_buffer *of_rows = of_share ? take(&arrays, rows, "rows", 1u << I64, 1, READ) : NULL;
    const Py_buffer *of_needed = of_rows ? take(&arrays, needed, "needed", 1u << U8, 1, READ) : NULL;
    const Py_buffer *of_mean = of_needed ? take(&arrays, log_mean, "log_mean", 1u << F64, 2, WRITE) : NULL;
    const Py_buffer *of_tops = of_mean ? take(&arrays, tops, "tops", 1u << F64, 1, WRITE) : NULL;
    if (of_tops == NULL)
        goto done;
    const int64_t n_cells = of_share->shape[0], n_nodes = of_share->shape[1];
    Tail tail = {.share = of_share->buf, .rows = of_rows->buf, .needed = of_needed->buf, .n_rows = of_rows->shape[0],
                 .n_cells = n_cells, .n_nodes = n_nodes};
    if (of_needed->shape[0] != n_nodes || of_before->shape[0] != n_cells || of_mean->shape[0] != n_cells || of_mean->shape[1] != n_nodes ||
        of_tops->shape[0] != n_cells || n_cells < 1 || n_nodes < 1) {
        refuse("before, log_mean or tops");
        goto done;
    }
    const double **places[4] = {&tail.log_scale, &tail.left, &tail.right, &tail.bulge};
    for (int i = 0; i < 4; i++) {
        const Py_buffer *view = take(&arrays, lines[i], names[i], 1u << F64, 1, READ);
        if (view == NULL)
            goto done;
        if (view->shape[0] != n_nodes - (i > 0)) {
            refuse(names[i]);
            goto done;
        }
        *places[i] = view->buf;
    }
    if (above != Py_None) {
        const Py_buffer *view = take(&arrays, above, "above", 1u << F64, 2, READ);
        if (view == NULL)
            goto done;
        if (view->shape[0] != n_cells || view->shape[1] != n_nodes) {
            refuse("above");
            goto done;
        }
        tail.above = view->buf;
    }
    for (int64_t r = 0; r < tail.n_rows; r++)
        if (tail.rows[r] < (r > 0 ? tail.rows[r - 1] : 0) || tail.rows[r] >= n_cells) {
            refuse("rows");
            goto done;
        }
    /* zeros before it, and after it for the last tile; then scratch */
    const int64_t size = 2 * n_cells + 8;
    padded = calloc((size_t)(size + 2 * n_nodes), sizeof *padded);
    if (padded == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    memcpy(padded + n_cells, of_before->buf, (size_t)n_cells * sizeof *padded);
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    own->tail_step(&tail, padded, padded + size, of_mean->buf, of_tops->buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    free(padded);
    release(&arrays);
    return result;
}

static PyObject *list_forms(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    PyObject *names = PyList_New(0);
    for (int i = 0; names != NULL && forms[i] != NULL; i++) {
        if (!runs_here(forms[i]))
            continue;
        PyObject *name = PyUnicode_FromString(forms[i]->name);
        if (name == NULL || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *form_in_use(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyUnicode_FromString(form->name);
}

static PyObject *use_form(PyObject *module, PyObject *arguments)
{
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "s", &name))
        return NULL;
    for (int i = 0; forms[i] != NULL; i++)
        if (strcmp(forms[i]->name, name) == 0 && runs_here(forms[i])) {
            form = forms[i];
            return Py_NewRef(Py_None);
        }
    PyErr_Format(PyExc_ValueError, "this processor or build has no form %s", name);
    return NULL;
}

static PyMethodDef methods[] = {
    {"count_column", count_column, METH_VARARGS, "Check and count one prediction of each row."},
    {"count_classes", count_classes, METH_VARARGS, "Check and count all predictions of each row."},
    {"sum_influences", sum_influences, METH_VARARGS, "Sum what each row adds to an error."},
    {"find_levels", levels, METH_VARARGS, "Find the one prediction of each bin, as far as sums tell."},
    {"top_values", top_values, METH_VARARGS, "Write the largest prediction of each row."},
    {"transpose", transpose, METH_VARARGS, "Check columns and write them as rows."},
    {"count_cells", count_cells, METH_VARARGS, "Check values and count them in the cells of a grid."},
    {"pick_cells", pick_cells, METH_VARARGS, "List the values in marked cells."},
    {"near_quantiles", near_quantiles_of, METH_VARARGS, "List sorted values that hold quantiles."},
    {"logistic_sums", logistic_sums, METH_VARARGS, "Sum the log loss and its derivatives."},
    {"distinct_scores", distinct, METH_VARARGS, "Count distinct scores."},
    {"pool", pool_scores, METH_VARARGS, "Pool adjacent violators."},
    {"tangent_slopes", slopes_of_tangents, METH_VARARGS, "Write the slopes of tangents to a hull."},
    {"hash_rows", hash, METH_VARARGS, "Write the small hashes of rows, and sum all."},
    {"exps", exps, METH_O, "Replace values that are at most 0 by their exponentials."},
    {"even_bins", even_cells, METH_VARARGS, "Add twice the bin of each value, of bins of one width."},
    {"block_weights", block_weights, METH_VARARGS, "Write the probabilities of blocks of events at nodes."},
    {"add_rows", add_rows, METH_VARARGS, "Add rows to those that an index names."},
    {"tail_step", tail_step, METH_VARARGS, "Take one bin's step of the recursion of worst tails."},
    {"forms", list_forms, METH_NOARGS, "List the forms that run on this processor."},
    {"form", form_in_use, METH_NOARGS, "Return the form in use."},
    {"use_form", use_form, METH_VARARGS, "Use another form from now on."},
    {NULL, NULL, 0, NULL},
};

static int choose_form(PyObject *module)
{
    (void)module;
    for (int i = 0; forms[i] != NULL; i++)
        if (runs_here(forms[i]))
            form = forms[i];
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, choose_form}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "The compiled loops of calibrant.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&definition);
}
