//! Builds `fake.c` and looks into it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use dormant_cuda::Cuda;
use libloading::Library;
use tempfile::TempDir;

/// One driver library of its own file, hence with its own state.
pub(crate) struct Fake {
    _folder: TempDir,
    path: PathBuf,
    library: Library,
}

impl Fake {
    /// Builds the library; `defines` leave functions out.
    pub(crate) fn build(defines: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("stand_in.so");
        compile(&[concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/fake.c")], defines, &path);
        // SAFETY: the library has no initialisers.
        let library = unsafe { Library::new(&path) }.expect("the library just built");
        Self { _folder: folder, path, library }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(&self) -> Cuda {
        Cuda::open_at(&self.path).expect("the stand-in opens")
    }

    fn number_at(&self, name: &str, index: usize) -> &AtomicI32 {
        // SAFETY: all numbers in `fake.c` are 32-bit; their symbols are their addresses.
        let first = unsafe { self.library.get::<*const AtomicI32>(name) }.expect(name);
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

    /// The calling thread's current context.
    pub(crate) fn current(&self) -> usize {
        let mut context = 0;
        // SAFETY: the function has this type in `fake.c`.
        let ask = unsafe {
            self.library.get::<unsafe extern "C" fn(*mut usize) -> i32>("cuCtxGetCurrent")
        }
        .expect("cuCtxGetCurrent");
        // SAFETY: `context` is writable.
        assert_eq!(unsafe { ask(&raw mut context) }, 0);
        context
    }

    /// Makes a device's context current in the calling thread, as a program would.
    pub(crate) fn enter(&self, device: i32) -> usize {
        let mut context = 0;
        // SAFETY: the function has this type in `fake.c`.
        let retain = unsafe {
            self.library
                .get::<unsafe extern "C" fn(*mut usize, i32) -> i32>("cuDevicePrimaryCtxRetain")
        }
        .expect("cuDevicePrimaryCtxRetain");
        // SAFETY: `context` is writable.
        assert_eq!(unsafe { retain(&raw mut context, device) }, 0);
        // SAFETY: the function has this type in `fake.c`.
        let set =
            unsafe { self.library.get::<unsafe extern "C" fn(usize) -> i32>("cuCtxSetCurrent") }
                .expect("cuCtxSetCurrent");
        // SAFETY: the context was retained above.
        assert_eq!(unsafe { set(context) }, 0);
        self.set("retains", 0);
        self.set("not_relaxed", 0);
        context
    }

    /// The calling thread's capture mode; sets another.
    pub(crate) fn exchange_mode(&self, mut mode: u32) -> u32 {
        // SAFETY: the function has this type in `fake.c`.
        let exchange = unsafe {
            self.library
                .get::<unsafe extern "C" fn(*mut u32) -> i32>("cuThreadExchangeStreamCaptureMode")
        }
        .expect("cuThreadExchangeStreamCaptureMode");
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
