"""How often is tried what chance decides: enough in `make test`, a part in `make quick`, much more in `make night`."""

import os

#: `make quick` and `make night` set it. Only by night are examples new each time: by day no test fails by chance.
SHARE = float(os.environ.get("CORRAL_TRIES", "1"))
BY_NIGHT = SHARE > 1


def tries(usual: int) -> int:
    """Return how often to try what `make test` tries so often."""
    return max(5, round(usual * SHARE))
