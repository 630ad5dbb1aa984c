"""What a failed call raises."""


class WherryError(RuntimeError):
    """The library's sentence: what failed, where, and what to do. `status` is its name: "no device", "too long"."""

    def __init__(self, message: str, status: str):
        super().__init__(message)
        self.status = status
