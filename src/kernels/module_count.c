/* Counting, for Python: calibrant/_kernels.pyi says what each function takes. */

#include "arrays.h"

#define ALIGNMENT 64
#define SMALL_TABLE 512 /* cells of which all parts are moved at once; four times as many of a class */
#define MOST_COPIED 128 /* cells that have four copies: these fill half of the nearest cache. Affects speed only. */

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
        if ((view = take(arrays, groups, "groups", NUMBERS & ~FLOATS, 1, ANY_STRIDE)) == NULL)
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
    sums->small = several ? n_cells <= SMALL_TABLE : n_cells / row <= 4 * SMALL_TABLE;
    const int split = !weighted && !sums->small;
    const int64_t size = n_cells * (split ? 2 : sums->lanes);
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
    const int64_t counts = split ? n_cells / 4 + 1 : 0; /* of 2 bytes each */
    const size_t doubles = (size_t)((sums->copies + 1) * size + 3 * row + counts) + ALIGNMENT / sizeof(double);
    *memory = calloc(doubles, sizeof(double));
    if (*memory == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    sums->parts = (double *)(((uintptr_t)*memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    sums->lost = sums->parts + sums->copies * size;
    sums->row = sums->lost + size;
    sums->counts = split ? (uint16_t *)(sums->row + 3 * row) : NULL;
    return 0;
}

static PyObject *count(PyObject *arguments, int by_class)
{
    PyObject *probs, *labels, *weights, *groups, *tuple, *out, *level, *result = NULL;
    int n_groups, n_classes, first, are_logits;
    unsigned long long least;
    if (!PyArg_ParseTuple(arguments, "OOOOKiiipOOO", &probs, &labels, &weights, &groups, &least, &n_groups, &n_classes,
                          &first, &are_logits, &tuple, &out, &level))
        return NULL;
    Arrays arrays = {.n = 0};
    Rows rows = {.least = least, .n_groups = n_groups, .n_classes = n_classes, .first = first, .are_logits = are_logits};
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
    for (int64_t i = 0; sums.counts == NULL && i < n_cells * sums.lanes; i++)
        sums.totals[i] -= sums.lost[i];
    for (int64_t i = 0; sums.counts != NULL && i < n_cells; i++) {
        sums.totals[4 * i + 1] -= sums.lost[2 * i];
        sums.totals[4 * i + 2] -= sums.lost[2 * i + 1];
    }
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

static PyObject *add(PyObject *module, PyObject *arguments)
{
    PyObject *objects[3], *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO", &objects[0], &objects[1], &objects[2]))
        return NULL;
    Arrays arrays = {.n = 0};
    for (int i = 0; i < 3; i++) {
        if (take(&arrays, objects[i], "terms", 1u << F64, 2, i < 2 ? WRITE : READ) == NULL)
            goto done;
        if (size_of(&arrays.views[i]) != size_of(&arrays.views[0])) {
            refuse("terms");
            goto done;
        }
    }
    const Py_buffer *views = arrays.views;
    add_compensated(views[0].buf, views[1].buf, views[2].buf, size_of(&views[0]));
    result = Py_NewRef(Py_None);
done:
    release(&arrays);
    return result;
}

static PyObject *table(PyObject *module, PyObject *arguments)
{
    PyObject *sums, *out, *result = NULL;
    int weighted;
    double rounding;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OpdO", &sums, &weighted, &rounding, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_sums = take(&arrays, sums, "sums", 1u << F64, 2, READ);
    const Py_buffer *of_out = of_sums ? take(&arrays, out, "out", 1u << F64, 2, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    if (of_sums->shape[0] != 2 * of_out->shape[1] || of_sums->shape[1] < (weighted ? 6 : 3) ||
        of_out->shape[0] != (weighted ? 9 : 7)) {
        refuse("sums and their table");
        goto done;
    }
    const int unclear = table_of(of_sums->buf, of_out->shape[1], (int)of_sums->shape[1], weighted, rounding,
                                 of_out->buf);
    result = PyBool_FromLong(unclear);
done:
    release(&arrays);
    return result;
}

PyMethodDef counting[] = {
    {"count_column", count_column, METH_VARARGS, "Check and count one prediction of each row."},
    {"count_classes", count_classes, METH_VARARGS, "Check and count all predictions of each row."},
    {"sum_influences", sum_influences, METH_VARARGS, "Sum what each row adds to an error."},
    {"add_compensated", add, METH_VARARGS, "Add a term to a total, and keep what is lost."},
    {"table_of", table, METH_VARARGS, "Make the arrays of a table of sums, with levels as far as they tell."},
    {NULL, NULL, 0, NULL},
};
