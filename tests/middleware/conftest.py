"""What the tests of the middleware share."""

import gc

import pytest

# Django leaves the temporary file of a request's body to the garbage collector.
UNCLOSED = "ignore:Exception ignored in. <function SpooledTemporaryFile"


@pytest.fixture(autouse=True)
def collected():
    """Such files are collected before the next test."""
    yield
    gc.collect()
