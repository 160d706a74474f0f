from __future__ import annotations

import gc
import sys
import time

import pytest
from support import MIB

import dormant


class Tensor:
    """What `dormant.backup` asks of a tensor, as an old torch has it."""

    def __init__(self, address: int, elements: int, contiguous: bool = True) -> None:
        self._address, self._elements, self._contiguous = address, elements, contiguous

    def data_ptr(self) -> int:
        return self._address

    def numel(self) -> int:
        return self._elements

    def element_size(self) -> int:
        return 2

    def is_contiguous(self) -> bool:
        return self._contiguous


def paused(contents: bytes = b"contents") -> int:
    address = dormant.allocate(2 * MIB, tag="w", policy="host")
    dormant.write(address, contents)
    dormant.pause("w")
    return address


def test_a_backup_is_the_blocks_or_the_tensors_own_bytes() -> None:
    address = paused()
    with dormant.backup(address) as lease:
        assert len(lease) == lease.nbytes == 2 * MIB
        assert bytes(lease)[:8] == b"contents"
    with dormant.backup(address + 3) as lease:
        assert (lease.nbytes, bytes(lease)[:5]) == (2 * MIB - 3, b"tents")
    with dormant.backup(Tensor(address + 2, 3)) as lease:
        assert bytes(lease) == b"ntents"
    with pytest.raises(dormant.InvalidArgumentError, match="not contiguous"):
        dormant.backup(Tensor(address, 3, contiguous=False))
    with pytest.raises(dormant.InvalidArgumentError, match="its block ends"):
        dormant.backup(Tensor(address + 2, MIB))
    with pytest.raises(dormant.InvalidArgumentError, match="neither an address nor a tensor: str"):
        dormant.backup("w")


def test_views_are_not_copied_and_read_only() -> None:
    lease = dormant.backup(paused())
    view = lease.view()
    assert bytes(view[:8]) == b"contents"
    assert view.readonly
    assert view.nbytes == lease.nbytes
    with pytest.raises(TypeError):
        view[0] = 0
    if sys.version_info >= (3, 12):
        assert bytes(memoryview(lease)[:8]) == b"contents"


def test_a_backup_stays_as_it_was_after_a_resume_and_a_free() -> None:
    address = paused()
    lease = dormant.backup(address)
    view = lease.view()
    dormant.resume("w")
    dormant.write(address, b"new text")
    assert bytes(view[:8]) == b"contents"
    dormant.free(address)
    assert bytes(lease)[:8] == b"contents"
    lease.close()
    assert bytes(view[:8]) == b"contents", "the view keeps what it shows"


def test_host_memory_goes_back_when_lease_and_views_are_gone() -> None:
    address = paused()
    lease = dormant.backup(address)
    view = lease.view()
    dormant.free(address)
    lease.close()
    with pytest.raises(dormant.WrongStateError, match="has been closed"):
        lease.view()
    assert "closed" in repr(lease)
    assert dormant.stats().host_backup_bytes > 0
    view.release()
    del view
    gc.collect()
    deadline = time.monotonic() + 10
    while dormant.stats().host_backup_bytes and time.monotonic() < deadline:
        time.sleep(0.01)
    assert dormant.stats().host_backup_bytes == 0


def test_without_saved_contents_the_error_says_why() -> None:
    with pytest.raises(dormant.NotFoundError):
        dormant.backup(4096)
    address = dormant.allocate(4096, tag="kv", policy="discard")
    with pytest.raises(dormant.WrongStateError):
        dormant.backup(address)
    dormant.pause("kv")
    with pytest.raises(dormant.WrongStateError) as caught:
        dormant.backup(address)
    assert "kv" in str(caught.value)
    assert "discard" in str(caught.value)


def test_dropped_backups_are_gone_and_the_block_wakes_all_the_same() -> None:
    address = paused()
    assert dormant.drop_backup("unknown") == 0
    assert dormant.drop_backup("w") == 2 * MIB
    with pytest.raises(dormant.WrongStateError):
        dormant.backup(address)
    dormant.resume("w")
    assert dormant.state("w") == "active"


def test_trim_is_always_allowed() -> None:
    paused()
    dormant.trim()
    dormant.resume("w")
    dormant.trim()
