"""A forked child has none of the memory: calls are refused, nothing of the parent's is touched."""

from __future__ import annotations

from support import Child

PARENT = """
import atexit, os, sys, threading, time
import dormant

w = dormant.allocate(4 << 20, tag="w", policy="host")
dormant.write(w, b"weights")

def refused(call, *arguments):
    try:
        call(*arguments)
    except dormant.ForkedError as error:
        assert error.kind == "forked"
        return
    raise AssertionError(f"{call} was not refused")

def fork(work):
    # The child ends as a program does, with everything that atexit and the interpreter do.
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        work()
        atexit.register(lambda: os.write(1, b"child's atexit\\n"))
        sys.exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
"""


def test_in_a_child_every_call_is_refused(child: Child) -> None:
    child(
        PARENT
        + """
dormant.pause("w")
def work():
    for call in (dormant.pause, dormant.resume, dormant.blocks, dormant.stats, dormant.trim,
                 dormant.drop_backup, dormant.plan, dormant.devices):
        refused(call)
    for call in (dormant.free, dormant.find, dormant.backup):
        refused(call, w)
    refused(dormant.allocate, 4096)
    refused(dormant.state, "w")
    refused(dormant.read, w, 4)
    refused(dormant.write, w, b"x")
    refused(dormant.device_memory, 0)
fork(work)
dormant.resume("w")
assert dormant.read(w, 7) == b"weights"
"""
    )


def test_a_child_forked_while_paused_ends_well_and_the_parent_resumes(child: Child) -> None:
    out = child(
        PARENT
        + """
dormant.pause("w")
lease = dormant.backup(w)
copied = bytes(lease)[:7]
view = lease.view()
def work():
    assert copied == b"weights"
    refused(lease.view)
    lease.close()
with dormant.region("a"), dormant.disable(), dormant.carry().enter():
    fork(work)
assert bytes(view[:7]) == b"weights"
dormant.resume("w")
assert dormant.read(w, 7) == b"weights"
print("parent")
"""
    )
    # A child that ends inside regions leaves them quietly.
    assert out == "child's atexit\nparent\n"


def test_a_child_leaves_the_regions_it_was_forked_in(child: Child) -> None:
    out = child(
        PARENT
        + """
pid = None
with dormant.region("a"):
    with dormant.capture():
        pid = os.fork()
if pid == 0:
    os.write(1, b"left\\n")
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
dormant.pause()
dormant.resume()
print("parent")
"""
    )
    assert out == "left\nparent\n"


def test_a_child_forked_during_a_pause_ends_well(child: Child) -> None:
    out = child(
        PARENT
        + """
rest = dormant.allocate(16 << 20, tag="w", policy="host")
dormant.write(rest + (15 << 20), b"rest")
host = bytearray(b"an ordinary tensor")
pausing = threading.Thread(target=dormant.pause, args=["w"])
pausing.start()
while dormant.state("w") == "active":
    time.sleep(0.001)
def work():
    assert host == b"an ordinary tensor"
    refused(dormant.resume)
assert dormant.state("w") == "moving"
fork(work)
pausing.join()
dormant.resume("w")
assert dormant.read(w, 7) == b"weights"
assert dormant.read(rest + (15 << 20), 4) == b"rest"
print("parent")
""",
        DORMANT_SIM_LINK="16MiB",
    )
    assert out == "child's atexit\nparent\n"


def test_workers_of_multiprocessing_get_our_errors_back(child: Child) -> None:
    child(
        """
        import multiprocessing, dormant

        def work(_):
            dormant.allocate(4096)

        if __name__ == "__main__":
            dormant.allocate(4096)
            with multiprocessing.get_context("fork").Pool(1) as pool:
                try:
                    pool.map(work, [1])
                except dormant.ForkedError as error:
                    assert error.kind == "forked" and str(error)
                else:
                    raise AssertionError("not refused")
        """
    )
