/* Compiles the loops of form.h for every vector unit that this build knows, and tells which ones run here.

   Which of them is used is decided at run time; other processors than x86-64 have one form, the compiler's own
   (on aarch64 NEON is part of it). */

#include <float.h>
#include <math.h>
#include <string.h>

#include "rows.h"

#if defined(__clang__) || defined(_MSC_VER)
#pragma STDC FP_CONTRACT OFF /* gcc has a flag for it; see setup.py */
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("Os") /* for processors of before 2013: 14 KB less of a wheel that stays under 1 MB */
#endif
#define FORM(name) name##_plain
#define FORM_NAME "plain"
#define FORM_LANES 2
#include "form.h"
#undef FORM
#undef FORM_NAME
#undef FORM_LANES
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#if defined(__x86_64__) && defined(__GNUC__)

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define FORM(name) name##_avx2
#define FORM_NAME "avx2"
#define FORM_LANES 4
#include "form.h"
#undef FORM
#undef FORM_NAME
#undef FORM_LANES
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw")
#endif
#define FORM(name) name##_avx512
#define FORM_NAME "avx512"
#define FORM_LANES 8
#include "form.h"
#undef FORM
#undef FORM_NAME
#undef FORM_LANES
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const Form *const forms[] = {&form_plain, &form_avx2, &form_avx512, NULL};

int runs_here(const Form *form)
{
    __builtin_cpu_init();
    if (form == &form_avx2)
        return __builtin_cpu_supports("avx2");
    if (form == &form_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    return 1;
}

#else

const Form *const forms[] = {&form_plain, NULL};

int runs_here(const Form *form)
{
    (void)form;
    return 1;
}

#endif
