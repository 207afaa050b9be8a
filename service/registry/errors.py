"""What the registry raises on purpose.

    TabglotError
    ├── RegistryError        it cannot be reached, read, written or understood
    ├── UnknownModelError    no model of that name, or no such version
    └── UnknownTableError    no table of that name

As in model.errors, nothing here knows of HTTP or of exit codes.
"""

from model.errors import TabglotError


class RegistryError(TabglotError):
    """The registry cannot be reached, read, written or understood; never shows a password."""


class UnknownModelError(TabglotError):
    """No model of that name, or no such version of it."""


class UnknownTableError(TabglotError):
    """No table of that name, or none that a user registered."""
