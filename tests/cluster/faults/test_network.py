"""The harness itself: what is said to be cut is cut, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.cluster.faults.network import command_in_namespaces, why_no_namespaces

# Inside, because a test process must not leave its own network for another one.
PROBE = """
import json, socket, threading
from tests.cluster.faults.network import Namespaces

network = Namespaces()
one, two, three = (network.place(name) for name in ("one", "two", "three"))

def serve(place):
    listener = place.run(lambda: socket.create_server((place.host, 9000)))
    def answer(link):
        while data := link.recv(100):
            link.sendall(data)
    def accept():
        while True:
            link, _ = listener.accept()
            threading.Thread(target=answer, args=(link,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()

for place in (one, two, three):
    serve(place)

def dial(source, target):
    return source.run(lambda: socket.create_connection((target.host, 9000), timeout=0.5))

def reached(source, target):
    try:
        link = dial(source, target)
        link.sendall(b"x")
        return link.recv(1) == b"x"
    except OSError as error:
        return type(error).__name__

def all_pairs():
    places = (one, two, three)
    return {f"{a.name}-{b.name}": reached(a, b) for a in places for b in places if a is not b}

seen = {"whole": all_pairs()}
link = dial(one, two)
network.cut(one, two)
seen["one way"] = all_pairs()
link.sendall(b"late")
network.heal()
link.settimeout(5)
seen["after healing"] = link.recv(4).decode()
network.cut(one, two)
network.cut(two, one)
seen["both ways"] = all_pairs()
network.heal()
network.reset(one)
try:
    link.sendall(b"x")
    seen["reset"] = link.recv(1) == b"x"
except OSError as error:
    seen["reset"] = type(error).__name__
seen["healed"] = all_pairs()
print(json.dumps(seen))
"""


def test_what_is_cut_is_cut_and_nothing_else() -> None:
    if why := why_no_namespaces():
        pytest.skip(f"no network namespaces: {why}")
    ran = subprocess.run(
        command_in_namespaces([sys.executable, "-c", PROBE]), capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    pairs = seen["whole"].keys()
    assert seen["whole"] == dict.fromkeys(pairs, True)
    # TCP needs both directions, so one that is lost stops both; what was sent arrives when it is healed.
    cut = {pair: "TimeoutError" if pair in ("one-two", "two-one") else True for pair in pairs}
    assert seen["one way"] == cut
    assert seen["after healing"] == "late"
    assert seen["both ways"] == cut
    assert seen["reset"] in ("ConnectionAbortedError", "ConnectionResetError")
    assert seen["healed"] == seen["whole"]
