"""The sequence every call passes through: authenticate, check limits, handle, settle or release."""
