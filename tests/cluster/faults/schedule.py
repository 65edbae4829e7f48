"""Which faults come when. Everything follows from the seed."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass


class Kind(enum.Enum):
    KILL = "kill -9"
    PAUSE = "pause"
    WIPE = "wipe the disk"
    ISOLATE = "cut off from everybody"
    SPLIT = "cut off from one broker"
    ONE_WAY_OUT = "what it sends is lost"
    ONE_WAY_IN = "what it should get is lost"
    NO_STORE = "cut off from ZooKeeper"
    RESET = "reset its connections"
    KILL_ALL = "kill -9 all brokers"
    STORE_KILL = "kill -9 a ZooKeeper server"
    STORE_PAUSE = "pause a ZooKeeper server"
    JOIN = "a broker joins"
    DRAIN = "a broker is drained and leaves"


class Role(enum.Enum):
    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"
    COORDINATOR = "coordinator"
    TRANSACTIONS = "coordinator of transactions"
    # A client that does transactions
    WORKER = "worker"
    # Of the ZooKeeper ensemble
    STORE_LEADER = "leading server"
    STORE_FOLLOWER = "following server"
    ALL = "all"
    SPARE = "spare"


@dataclass(frozen=True)
class Fault:
    number: int
    kind: Kind
    role: Role
    # How long it lasts before it is undone
    hold_s: float
    # Quiet time before it
    gap_s: float
    # Whether it waits until the last one has healed; if not, faults overlap with what they left behind.
    after_healing: bool
    # Picks one where several have the role.
    pick: int

    def __str__(self) -> str:
        return f"{self.number}: {self.kind.value}, {self.role.value}, {self.hold_s:.1f} s"


@dataclass(frozen=True)
class Possible:
    """What this cluster can suffer."""

    cuts: bool
    brokers: int
    zookeepers: int
    # There is one more broker, which joins and leaves.
    spare: bool = False
    # There are clients that do transactions.
    workers: bool = False
    # And nobody else suffers.
    only_workers: bool = False


@dataclass(frozen=True)
class Pace:
    session_s: float
    # A part of the faults outlasts the session, the rest stays well below.
    longest_hold_s: float
    gap_s: float
    heal_between: float


_BROKER_ROLES = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.COORDINATOR)
_NETWORK = (Kind.ISOLATE, Kind.SPLIT, Kind.ONE_WAY_OUT, Kind.ONE_WAY_IN, Kind.RESET)


def cases(possible: Possible) -> list[tuple[Kind, Role]]:
    """Every kind of fault for every role that it can meet."""
    kinds = [Kind.KILL, Kind.PAUSE]
    if possible.only_workers:
        return [(kind, Role.WORKER) for kind in kinds]
    if possible.cuts:
        kinds += _NETWORK if possible.brokers > 1 else (Kind.RESET, Kind.ISOLATE)
        if possible.zookeepers:
            kinds.append(Kind.NO_STORE)
    if possible.brokers > 1:
        kinds.append(Kind.WIPE)
    roles = (*_BROKER_ROLES, Role.TRANSACTIONS) if possible.workers else _BROKER_ROLES
    found = [(kind, role) for kind in kinds for role in roles]
    if possible.workers:
        # As often as brokers.
        found += [(kind, Role.WORKER) for kind in (Kind.KILL, Kind.PAUSE) for _ in roles]
    found.append((Kind.KILL_ALL, Role.ALL))
    if possible.spare:
        found += [(Kind.JOIN, Role.SPARE), (Kind.DRAIN, Role.SPARE)]
    if possible.zookeepers == 1:
        found += [(Kind.STORE_KILL, Role.STORE_LEADER), (Kind.STORE_PAUSE, Role.STORE_LEADER)]
    if possible.zookeepers > 1:
        found += [
            (kind, role)
            for kind in (Kind.STORE_KILL, Kind.STORE_PAUSE)
            for role in (Role.STORE_LEADER, Role.STORE_FOLLOWER)
        ]
    return found


def schedule(seed: int, count: int, possible: Possible, pace: Pace) -> list[Fault]:
    """All cases in an order of chance, then all again: a long run has each of them equally often."""
    chance = random.Random(seed)
    wanted: list[tuple[Kind, Role]] = []
    while len(wanted) < count:
        round_of_cases = cases(possible)
        chance.shuffle(round_of_cases)
        wanted += _spread(round_of_cases) if not wanted else round_of_cases
    faults = []
    for number, (kind, role) in enumerate(wanted[:count], start=1):
        lasting = chance.random() < 0.3
        hold_s = chance.uniform(pace.session_s, pace.longest_hold_s) if lasting else chance.uniform(0.2, 1.5)
        faults.append(
            Fault(
                number=number,
                kind=kind,
                role=role,
                hold_s=round(hold_s, 2),
                gap_s=round(chance.uniform(0.1, pace.gap_s), 2),
                # A second disk is wiped only when the first is full again: nothing survives the loss of all disks. And
                # an operator moves replicas when nothing else is wrong.
                after_healing=kind in (Kind.WIPE, Kind.JOIN, Kind.DRAIN) or chance.random() < pace.heal_between,
                pick=chance.randrange(1000),
            )
        )
    return faults


def _spread(shuffled: list[tuple[Kind, Role]]) -> list[tuple[Kind, Role]]:
    """Each kind once before any comes twice, so that a short run has many."""
    first = {kind: case for case in reversed(shuffled) for kind in [case[0]]}
    ones = [case for case in shuffled if first[case[0]] == case]
    return ones + [case for case in shuffled if first[case[0]] != case]
