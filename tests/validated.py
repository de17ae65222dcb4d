"""Two hundred rows that R, relplot and probcal have validated too; how is said in test_validation."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

import calibrant as cb

ROW = np.arange(200)
P = (((ROW * 7919) % 200 + 0.5) / 200) ** 1.5
U = ((ROW * 104729 + 13) % 997) / 997
Y = (expit(0.2 + 0.8 * logit(P)) > U).astype(int)
TABLE = cb.validate(Y, P)
