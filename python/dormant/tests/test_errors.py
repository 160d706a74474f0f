from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from support import REPOSITORY

import dormant
from dormant import _native, _reports, _structs, errors

TYPES = REPOSITORY / "crates" / "dormant-capi" / "src" / "types.rs"


def all_kinds() -> list[type[dormant.Error]]:
    return [dormant.Error, dormant.LibraryMissingError, *errors.BY_STATUS.values()]


@pytest.mark.parametrize("kind", all_kinds())
def test_an_error_of_each_kind_survives_pickling(kind: type[dormant.Error]) -> None:
    failure = dormant.Failure(0x1000, 4, "w", 0, True, "why")
    amount = dormant.Amount(1, 2)
    phases = dormant.Phases(1, 2, 3, 4, 5, 6)
    report = dormant.Report(
        amount,
        amount,
        amount,
        amount,
        amount,
        phases,
        1,
        "reclaim",
        True,
        (),
        (),
        "asked",
        ("disk_in_memory",),
    )
    error = kind("text", device=0, wanted_bytes=5, failures=(failure,), report=report)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "text"
    assert (again.kind, again.device, again.wanted_bytes) == (kind.kind, 0, 5)
    assert (again.free_bytes, again.address, again.driver_code) == (None, None, None)
    assert again.failures == (failure,)
    assert again.report == report
    assert isinstance(error, RuntimeError)


def test_an_error_has_no_other_details() -> None:
    with pytest.raises(TypeError, match="no detail 'colour'"):
        dormant.Error("text", colour="red")


def test_each_status_has_a_class_of_its_own_with_the_librarys_name() -> None:
    kinds = list(errors.BY_STATUS.values())
    assert len(set(kinds)) == len(kinds)
    assert len({kind.kind for kind in kinds}) == len(kinds)
    names = {status: name for name, status in rust_statuses().items()}
    assert set(errors.BY_STATUS) == set(names) - {0}
    for status, kind in errors.BY_STATUS.items():
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", names[status]).lower()
        assert kind.kind == snake


def test_a_status_that_is_not_known_is_still_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def dormant_last_error(self, _error: object) -> int:
            return 5

    monkeypatch.setattr(_native, "library", Library)
    with pytest.raises(dormant.Error, match="status 99"):
        _native.check(99)
    with pytest.raises(dormant.BusyError, match="status 7"):
        _native.check(7)


def test_an_error_in_a_callback_comes_out_whole() -> None:
    dormant.allocate(4096)

    def wrong(_raw: object) -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        _native.each(_native.library().dormant_blocks, _structs.DormantBlock, wrong)


def rust_statuses() -> dict[str, int]:
    body = re.search(r"pub enum DormantStatus \{(.*?)\n\}", source(), re.S)
    assert body
    return {name: int(value) for name, value in re.findall(r"(\w+) = (\d+),", body[1])}


def source() -> str:
    if not TYPES.exists():
        pytest.skip("the library's source is not here")
    return Path(TYPES).read_text()


RUST_TYPES = {
    "u32": "c_uint",
    "i32": "c_int",
    "u64": "c_ulong",
    "i64": "c_long",
    "usize": "c_ulong",
    "*const c_char": "c_char_p",
    "*mut c_void": "c_void_p",
    "*const u32": "LP_c_uint",
    "[c_char; 16]": "c_char_Array_16",
    "[c_char; 32]": "c_char_Array_32",
    "DormantStatus": "c_int",
    "DormantAmount": "DormantAmount",
}


def test_structs_are_as_in_the_library() -> None:
    found = re.findall(r"#\[repr\(C\)\].*?pub struct (\w+) \{(.*?)\n\}", source(), re.S)
    assert len(found) > 10
    for name, body in found:
        wanted = [
            (field, RUST_TYPES[kind])
            for field, kind in re.findall(r"^    pub (\w+): (.*),$", body, re.M)
        ]
        fields = getattr(_structs, name)._fields_
        assert [(field, kind.__name__) for field, kind in fields] == wanted, name


def test_numbers_are_as_in_the_library() -> None:
    for names, prefix in (
        (_structs.POLICIES, "POLICY"),
        (_structs.STATES, "STATE"),
        (_structs.HOST_MODES, "HOST_MODE"),
        (_structs.CHECKSUMS, "CHECKSUM"),
    ):
        for number, name in enumerate(names):
            line = f"pub const DORMANT_{prefix}_{name.upper()}: i32 = {number};"
            assert line in source()
    assert [policy.value for policy in _reports.Policy] == list(_structs.POLICIES)
    assert [mode.value for mode in _reports.HostMode] == list(_structs.HOST_MODES[1:])
    assert [checksum.value for checksum in _reports.Checksum] == list(_structs.CHECKSUMS[1:])


def test_another_calls_error_is_not_given_out_as_this_ones() -> None:
    # As a finalizer's call may fail between a failed call and the question why.
    with pytest.raises(dormant.NotFoundError):
        dormant.free(0x1000)
    error = _native.failure(7)
    assert type(error) is dormant.BusyError
    assert (error.kind, error.address, error.failures) == ("busy", None, ())
    assert "0x1000" not in str(error)
    assert "Somebody else is at it" in str(error)
    assert "0x1000" in str(_native.failure(5))
    assert type(_native.last_error(7)) is dormant.NotFoundError
