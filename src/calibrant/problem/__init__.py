"""What the user's arrays mean: the problem, and the rows."""

from calibrant.problem.kinds import Kind, Label, Problem, read_problem
from calibrant.problem.rows import Rows, read_rows

__all__ = ["Kind", "Label", "Problem", "Rows", "read_problem", "read_rows"]
