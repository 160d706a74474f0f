//! Builds a driver library out of C and looks into it. The HIP backend's tests use this file too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use libloading::{Library, Symbol};
use tempfile::TempDir;

/// One driver library of its own file, hence with its own state.
pub(crate) struct StandIn {
    _folder: TempDir,
    path: PathBuf,
    library: Library,
}

impl StandIn {
    /// Builds the library; `defines` leave functions out.
    pub(crate) fn build(source: &str, defines: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("stand_in.so");
        compile(&[source], defines, &path);
        // SAFETY: the library has no initialisers.
        let library = unsafe { Library::new(&path) }.expect("the library just built");
        Self { _folder: folder, path, library }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// # Safety
    /// The library's function of this name has this type.
    pub(crate) unsafe fn function<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: the caller's promise.
        unsafe { self.library.get::<F>(name) }.expect(name)
    }

    fn number_at(&self, name: &str, index: usize) -> &AtomicI32 {
        // SAFETY: all numbers in the sources are 32-bit; their symbols are their addresses.
        let first = unsafe { self.function::<*const AtomicI32>(name) };
        // SAFETY: arrays are used within bounds.
        let number = unsafe { first.add(index) };
        // SAFETY: the library stays loaded as long as `self`.
        unsafe { &*number }
    }

    pub(crate) fn get(&self, name: &str) -> i32 {
        self.get_at(name, 0)
    }

    pub(crate) fn get_at(&self, name: &str, index: usize) -> i32 {
        self.number_at(name, index).load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, name: &str, value: i32) {
        self.set_at(name, 0, value);
    }

    pub(crate) fn set_at(&self, name: &str, index: usize, value: i32) {
        self.number_at(name, index).store(value, Ordering::SeqCst);
    }

    /// The calling thread's capture mode, by the function of this name; sets another.
    pub(crate) fn exchange(&self, name: &str, mut mode: u32) -> u32 {
        // SAFETY: the functions that exchange modes have this type.
        let exchange = unsafe { self.function::<unsafe extern "C" fn(*mut u32) -> i32>(name) };
        // SAFETY: `mode` is writable.
        assert_eq!(unsafe { exchange(&raw mut mode) }, 0);
        mode
    }
}

/// Compiles C sources into a shared library.
pub(crate) fn compile(sources: &[&str], defines: &[&str], to: &Path) {
    let output = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()))
        .args(["-shared", "-fPIC", "-w", "-std=c11", "-D_DEFAULT_SOURCE"])
        .args(defines.iter().map(|define| format!("-D{define}")))
        .args(sources)
        .arg("-o")
        .arg(to)
        .output()
        .expect("these tests need a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
