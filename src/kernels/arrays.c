/* Arrays of Python as buffers. */

#include "arrays.h"

void release(Arrays *arrays)
{
    while (arrays->n > 0)
        PyBuffer_Release(&arrays->views[--arrays->n]);
}

/* Which type the items of a buffer have; -1 for one that the loops do not read. */
int type_of(const Py_buffer *view)
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
Py_buffer *take(Arrays *arrays, PyObject *object, const char *name, unsigned types, int ndim, int flags)
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

int64_t size_of(const Py_buffer *view)
{
    return view->len / view->itemsize;
}

Values values_of(const Py_buffer *view)
{
    Values values = {view->buf, view->strides[0], 0, view->shape[0], 0, (enum Type)type_of(view)};
    if (view->ndim == 2) {
        values.n_columns = view->shape[1];
        values.column_stride = view->strides[1];
    }
    return values;
}

int refuse(const char *what)
{
    PyErr_Format(PyExc_ValueError, "The arrays do not fit together: %s.", what);
    return -1;
}
