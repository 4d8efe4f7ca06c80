"""The compiled heart: randomness by address, the paper's rules, who goes where, the loop over rounds.

Everything here works on a *block* of trials laid out in lanes: the last axis of every array
is the trial, contiguous, so that the compiler vectorises over trials. Nothing here checks
its arguments; `simulation` and `planner` do, before they call.
"""
