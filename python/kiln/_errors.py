# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The errors of the package."""


class Error(Exception):
    """An error of libkiln. `number` is the stable number of the error code (12 is KILN-E0012), the text says what was expected and what was
    found; if no code fits, it is the whole report."""

    number = 0

    def __init__(self, text, number=None):
        super().__init__(text)
        if number is not None:
            self.number = number


class NotFound(Error):
    """A file or a kernel does not exist."""


class NoDevice(Error):
    """The driver or the device is not present; the text says what was tried."""


class NoVariant(Error):
    """No code fits the device or the arguments; the text names each candidate and the rule that refused it."""


class LaunchRefused(Error):
    """A promise of the kernel's signature is broken, or its grid cannot be launched."""


class Untrusted(Error):
    """A signature is missing or is not by a trusted key."""


ERRORS = {3: NotFound, 15: NoDevice, 17: NoVariant, 19: Untrusted, 21: LaunchRefused}
