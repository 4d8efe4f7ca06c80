"""What the arrays are called that pass between modules: NumPy arrays of one kind of number."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int32]  # as the kernels count
Integers = npt.NDArray[np.int64]
BigIntegers = npt.NDArray[np.object_]  # Python's own, of any size
LearningTable = npt.NDArray[Any]  # pulls or successes, agents by arms: whole numbers, or faded ones
