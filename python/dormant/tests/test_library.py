from __future__ import annotations

import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest
from support import REPOSITORY, SOURCE, Child

import dormant


def test_importing_loads_no_library_and_nothing_heavy(child: Child) -> None:
    child(
        """
        import sys, dormant, dormant._pytest_plugin
        assert not dormant._native.is_open()
        assert "numpy" not in sys.modules and "torch" not in sys.modules
        """,
        DORMANT_LIBRARY="/nowhere/libdormant.so",
    )


def test_a_missing_library_is_an_error_that_names_the_file(child: Child) -> None:
    code = """
        import dormant
        for call in (dormant.backend, dormant.pause, dormant.blocks, dormant.region("a").__enter__):
            try:
                call()
            except dormant.LibraryMissingError as error:
                assert isinstance(error, dormant.NoDriverError)
                text = str(error)
            else:
                raise AssertionError(call)
        print(text)
        """
    named = child(code, DORMANT_LIBRARY="/nowhere/libdormant.so")
    assert "DORMANT_LIBRARY names /nowhere/libdormant.so" in named
    packaged = SOURCE / "dormant" / "_lib" / "libdormant.so"
    if not packaged.exists():
        for unset in (None, ""):
            assert str(packaged) in child(code, DORMANT_LIBRARY=unset)


def test_a_file_that_is_no_library_of_ours_is_an_error_that_names_it(
    child: Child, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.so"
    wrong.write_text("this is no library")
    (foreign,) = [path for path in mapped() if re.search(r"/libc\.so|/libc-", path)][:1]
    for path in (str(wrong), foreign):
        out = child(
            """
            import dormant
            try:
                dormant.backend()
            except dormant.LibraryMissingError as error:
                print(error)
            """,
            DORMANT_LIBRARY=path,
        )
        assert f"{path} cannot be used as dormant's library" in out


def mapped() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[-1] for line in lines if "/" in line})


def test_without_a_driver_the_error_is_typed(child: Child) -> None:
    child(
        """
        import dormant
        try:
            dormant.backend()
        except dormant.NoDriverError as error:
            assert error.kind == "no_driver", error.kind
            assert not isinstance(error, dormant.LibraryMissingError)
        else:
            raise AssertionError("a driver, here?")
        """,
        DORMANT_BACKEND="cuda",
        DORMANT_CUDA_LIBRARY="/nowhere/libcuda.so.1",
    )


def test_the_package_works_under_another_name(tmp_path: Path, child: Child) -> None:
    outer = tmp_path / "vendor"
    outer.mkdir()
    (outer / "__init__.py").touch()
    shutil.copytree(SOURCE / "dormant", outer / "_inner")
    child(
        f"""
        import sys
        sys.path[:0] = [{str(tmp_path)!r}]
        import pickle
        from vendor import _inner
        from vendor._inner import testing
        array = testing.array(4, "f4", tag="w", policy="host")
        array.array[:] = 7
        _inner.pause("w")
        _inner.resume("w")
        assert (array.array == 7).all()
        assert type(pickle.loads(pickle.dumps(_inner.BusyError("x")))) is _inner.BusyError
        assert "dormant" not in sys.modules
        """
    )


def test_the_versions_of_package_and_workspace_agree() -> None:
    workspace = REPOSITORY / "Cargo.toml"
    if not workspace.exists():
        pytest.skip("the workspace is not here")
    found = re.search(r'^version = "(.*)"$', workspace.read_text(), re.M)
    assert found
    assert dormant.__version__ == found[1]


def test_all_that_is_public_is_there_and_said() -> None:
    for name in dormant.__all__:
        value = getattr(dormant, name)
        assert name == "__version__" or value.__doc__
    modules = [name for name in sys.modules if name.startswith("dormant")]
    assert all(importlib.import_module(name).__doc__ for name in modules)
