"""The limits of what can be computed, and defaults that most functions share."""

COUNT_MAX = 2**31 - 1  # the kernels count in 32 bits
ADDRESS_MAX = 2**64 - 1  # of a seed or a trial
HORIZON_MAX_ROUNDS = 2**53  # and take logarithms of floats
VISIT_MAX_TESTS = 1000  # in a visit, as planned
REPORT_MAX_TESTS = (
    1_000_000  # in one that is reported: over 2,000 such reports fit into what an arm can count
)
LOG_TABLE_MAX_TERMS = 2**24  # log terms in a table
DRIFT_TABLE_MAX_CELLS = 2**24  # chances in the tables of a problem that changes: 128 MB
TEST_LUCK_MAX_WORK = 3_000_000  # work on those of several tests, each exact: about ten seconds
MEMORY_MAX_ROUNDS = 100_000  # rounds that a policy which forgets remembers
SENSITIVITY_MIN = 1e-50
DELTA_MIN = 1e-200  # so that 2 A N / delta is a number for all A and N that can be counted
DEFAULT_DELTA = 0.05  # the paper's
DEFAULT_MEMORY_ROUNDS = 300  # rounds; docs/model.md has what more and fewer cost
