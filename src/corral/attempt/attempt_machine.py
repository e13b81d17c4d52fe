"""Where an attempt works, as its central half holds it."""

from __future__ import annotations

from msgspec import Struct

from corral.machines.host import Host
from corral.machines.machine import Machine


class AttemptMachine(Struct, frozen=True):
    """The machine of an attempt, and the host that its checks run on."""

    machine: Machine
    host: Host  #: of this machine: repository, logs and checks stay here
