/* The search for quantiles, for Python: calibrant/_kernels.pyi says what each function takes. */

#include "arrays.h"

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
    PyObject *lines, *out, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &lines, &out))
        return NULL;
    Arrays arrays = {.n = 0};
    const Py_buffer *of_lines = take(&arrays, lines, "lines", FLOATS, 2, READ);
    const Py_buffer *of_out = of_lines ? take(&arrays, out, "out", 1u << F64, 3, WRITE) : NULL;
    if (of_out == NULL)
        goto done;
    const int64_t n = of_lines->shape[1];
    if (of_out->shape[0] != of_lines->shape[0] || of_out->shape[1] != 5 || n < 1 || n > UINT32_MAX) {
        refuse("out"); /* rows are counted in 32 bits */
        goto done;
    }
    int status;
    const Form *own = form;
    Py_BEGIN_ALLOW_THREADS
    status = near_quantiles(own, of_lines->buf, (enum Type)type_of(of_lines), of_lines->shape[0], n,
                            of_out->shape[2] + 1, of_out->buf);
    Py_END_ALLOW_THREADS
    result = status == NO_MEMORY ? PyErr_NoMemory() : PyLong_FromLong(status);
done:
    release(&arrays);
    return result;
}

PyMethodDef searching[] = {
    {"top_values", top_values, METH_VARARGS, "Write the largest prediction of each row."},
    {"transpose", transpose, METH_VARARGS, "Check columns and write them as rows."},
    {"count_cells", count_cells, METH_VARARGS, "Check values and count them in the cells of a grid."},
    {"pick_cells", pick_cells, METH_VARARGS, "List the values in marked cells."},
    {"near_quantiles", near_quantiles_of, METH_VARARGS, "Check values and write those next to quantiles."},
    {NULL, NULL, 0, NULL},
};
