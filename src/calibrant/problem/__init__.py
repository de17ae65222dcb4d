"""What the user's arrays mean: the problem, and the rows."""

from calibrant.problem.kinds import Kind, Label, Problem, read_problem
from calibrant.problem.logits import Input, check_input, probabilities_of
from calibrant.problem.rows import Rows, off_device, read_meaning, read_rows

__all__ = [
    "Input",
    "Kind",
    "Label",
    "Problem",
    "Rows",
    "check_input",
    "off_device",
    "probabilities_of",
    "read_meaning",
    "read_problem",
    "read_rows",
]
