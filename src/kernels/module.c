/* The module calibrant._kernels: which form of the loops is in use, and the functions of all files together. */

#include "arrays.h"

const Form *form;

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

static PyMethodDef choosing[] = {
    {"forms", list_forms, METH_NOARGS, "List the forms that run on this processor."},
    {"form", form_in_use, METH_NOARGS, "Return the form in use."},
    {"use_form", use_form, METH_VARARGS, "Use another form from now on."},
    {NULL, NULL, 0, NULL},
};

static int start(PyObject *module)
{
    for (int i = 0; forms[i] != NULL; i++)
        if (runs_here(forms[i]))
            form = forms[i];
    PyMethodDef *const files[] = {choosing, counting, searching, fitting, tails};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (PyModule_AddFunctions(module, files[i]) < 0)
            return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, start}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "The compiled loops of calibrant.", 0, NULL, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&definition);
}
