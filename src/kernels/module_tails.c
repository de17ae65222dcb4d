/* The worst tails of a certificate, for Python: calibrant/_kernels.pyi says what each function takes. */

#include "arrays.h"

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
    PyObject *before, *share, *above, *rows, *needed, *lines[4], *cap, *log_mean, *tops, *result = NULL;
    static const char *const names[4] = {"log_scale", "left", "right", "bulge"};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOO", &before, &share, &above, &rows, &needed, &lines[0], &lines[1],
                          &lines[2], &lines[3], &cap, &log_mean, &tops))
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
    if (cap != Py_None) {
        const Py_buffer *view = take(&arrays, cap, "cap", 1u << F64, 1, READ);
        if (view == NULL)
            goto done;
        if (view->shape[0] != n_nodes - 1) {
            refuse("cap");
            goto done;
        }
        tail.cap = view->buf;
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

PyMethodDef tails[] = {
    {"block_weights", block_weights, METH_VARARGS, "Write the probabilities of blocks of events at nodes."},
    {"add_rows", add_rows, METH_VARARGS, "Add rows to those that an index names."},
    {"tail_step", tail_step, METH_VARARGS, "Take one bin's step of the recursion of worst tails."},
    {NULL, NULL, 0, NULL},
};
