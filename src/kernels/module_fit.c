/* The loops of fits, and those shown to tests, for Python: calibrant/_kernels.pyi says what each function takes. */

#include "arrays.h"

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
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    found = own->hash_rows(&values, of_codes->buf, of_factors->buf, mixers, bound, of_out->buf, &checksum);
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

PyMethodDef fitting[] = {
    {"logistic_sums", logistic_sums, METH_VARARGS, "Sum the log loss and its derivatives."},
    {"distinct_scores", distinct, METH_VARARGS, "Count distinct scores."},
    {"pool", pool_scores, METH_VARARGS, "Pool adjacent violators."},
    {"tangent_slopes", slopes_of_tangents, METH_VARARGS, "Write the slopes of tangents to a hull."},
    {"hash_rows", hash, METH_VARARGS, "Write the small hashes of rows, and sum all."},
    {"exps", exps, METH_O, "Replace values that are at most 0 by their exponentials."},
    {"even_bins", even_cells, METH_VARARGS, "Add twice the bin of each value, of bins of one width."},
    {NULL, NULL, 0, NULL},
};
