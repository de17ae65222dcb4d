/* What the Python side of the loops shares: arrays taken as buffers and checked, and the form in use.

   Written against the stable ABI, so that one build serves Python 3.11 and all later ones, and against the buffer
   protocol, so that it needs no headers of NumPy. Every function of Python that is declared here takes arrays,
   checks that they fit together, lets go of the interpreter's lock and runs a loop. */

#ifndef CALIBRANT_ARRAYS_H
#define CALIBRANT_ARRAYS_H

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os") /* nothing here is repeated: 1 KB less of a wheel that stays under 1 MB */
#endif
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

extern const Form *form; /* the form in use */

typedef struct {
    Py_buffer views[MOST_ARRAYS];
    int n;
} Arrays;

#define FLOATS (1u << F32 | 1u << F64)
#define NUMBERS ((1u << (U64 + 1)) - 1)
#define ANY_STRIDE PyBUF_STRIDES
#define READ PyBUF_C_CONTIGUOUS
#define WRITE (PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)

void release(Arrays *arrays);
int type_of(const Py_buffer *view);
Py_buffer *take(Arrays *arrays, PyObject *object, const char *name, unsigned types, int ndim, int flags);
int64_t size_of(const Py_buffer *view);
Values values_of(const Py_buffer *view);
int refuse(const char *what);

/* What each file offers to Python; NULL ends them. */
extern PyMethodDef counting[], searching[], fitting[], tails[];

#endif
