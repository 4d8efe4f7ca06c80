"""A team that gives false alarms, for tests of the kernels: its slopes are what the test says, to the bit."""

from functools import cached_property

import numpy as np

from heterobandits.model.team import Team


class Reporting(Team):
    """A team whose agents give false alarms, with slopes to the bit: s - phi would round them."""

    def __init__(self, slopes, offsets):
        super().__init__(slopes)
        object.__setattr__(self, "offsets", tuple(offsets))

    @cached_property
    def slope(self):
        return np.array(self.sensitivities)

    @cached_property
    def offset(self):
        return np.array(self.offsets)
