/* The loops that read rows, in one form; included by forms.c once for each. No include guard for that reason.

   Each reads rows once, in blocks that stay in the processor's nearest cache: it checks the values, finds their
   bins and adds them up. A value is copied to a buffer and forced into its range there before an index is made of
   it, so arrays that another thread changes in the meantime give wrong sums, but never an access outside a buffer. */

#include "form_read.h"
#include "form_bins.h"
#include "form_sums.h"
#include "form_count.h"
#include "form_search.h"
#include "form_logistic.h"
#include "form_hash.h"
#include "form_tails.h"

static const Form FORM(form) = {
    FORM_NAME,
    FORM(count_column),
    FORM(count_classes),
    FORM(sum_influences),
    FORM(top_values),
    FORM(transpose),
    FORM(count_cells),
    FORM(pick_cells),
    FORM(key_range),
    FORM(key_cells),
    FORM(logistic_sums),
    FORM(hash_rows),
    FORM(exps),
    FORM(even_bins),
    FORM(block_weights),
    FORM(add_rows),
    FORM(tail_step),
};
