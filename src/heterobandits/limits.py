"""What numbers can be computed with, and the default of the one that most functions take."""

MOST = 2**31 - 1  # the kernels count in 32 bits
MOST_ADDRESS = 2**64 - 1  # of a seed or a trial
MOST_ROUNDS = 2**53  # and take logarithms of floats
MOST_TESTS = 1000  # in a visit, as planned
MOST_REPORTED = (
    1_000_000  # in one that is reported: over 2,000 such reports fit into what an arm can count
)
MOST_LOGS = 2**24  # log terms in a table
MOST_CELLS = 2**24  # chances in the tables of a problem that changes: 128 MB
MOST_LUCK = 3_000_000  # work on those of several tests, each exact: about ten seconds
MOST_MEMORY = 100_000  # rounds that a policy which forgets remembers
LEAST_SENSITIVITY = 1e-50
LEAST_DELTA = 1e-200  # so that 2 A N / delta is a number for all A and N that can be counted
DEFAULT_DELTA = 0.05  # the paper's
DEFAULT_MEMORY = 300  # rounds; docs/model.md has what more and fewer cost
