"""What the tests of the server share."""

import pytest

from serving import lent_apps


@pytest.fixture(autouse=True)
def _apps():
    """A test's apps are idle when it has ended."""
    with lent_apps():
        yield
