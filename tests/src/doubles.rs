//! Finding the stand-in libraries, and giving them to this process or to a child.
//!
//! They are built because this package depends on theirs. Their files are named `double_…`, so that
//! no `dlopen` takes one for a driver; a child gets links under the real names in a folder of its
//! own, and nothing else on its library path.

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use tempfile::TempDir;

use crate::c;
use crate::kept::kept;

/// A stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Double {
    /// For `libcuda.so.1`.
    Cuda,
    /// For `libamdhip64.so.7`.
    Hip,
}

impl Double {
    /// The name that programs know the library by.
    #[must_use]
    pub fn soname(self) -> &'static str {
        match self {
            Self::Cuda => "libcuda.so.1",
            Self::Hip => "libamdhip64.so.7",
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Cuda => "libdouble_cuda.so",
            Self::Hip => "libdouble_hip.so",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Cuda => "double-cuda",
            Self::Hip => "double-hip",
        }
    }

    /// The file that cargo built.
    ///
    /// # Panics
    /// When it is not there; says how to build it.
    #[must_use]
    pub fn file(self) -> PathBuf {
        find_built(self.file_name(), self.package())
    }
}

/// Where cargo puts what it builds for this test or program: the folder of dependencies below a
/// program's, its own, and that above a test's. What lies in a program's own may be older.
fn build_folders() -> impl Iterator<Item = PathBuf> {
    let own = std::env::current_exe().expect("this test's own path");
    let folders: Vec<_> = own.ancestors().skip(1).take(2).map(Path::to_path_buf).collect();
    [folders[0].join("deps")].into_iter().chain(folders)
}

/// A library file that was built with this test, or before.
///
/// # Panics
/// When it is not there; says how to build it.
#[must_use]
pub fn find_built(file: &str, package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    let mut paths = build_folders().map(|folder| folder.join(file));
    paths.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!(
            "{file} is not beside {} nor above it; `cargo build -p {package}` with this test's \
             profile and target folder builds it",
            test.display()
        )
    })
}

/// The newest archive of the CUDA runtime's stand-in; cargo puts a number into its name.
fn cudart_archive() -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    build_folders()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libdouble_cudart") && name.ends_with(".a")
        })
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
        .unwrap_or_else(|| {
            panic!(
                "libdouble_cudart.a is not beside {} nor above it; `cargo build -p double-cudart` \
                 with this test's profile and target folder builds it",
                test.display()
            )
        })
}

/// The runtime's stand-in, linked with a SONAME that is its symbols' version as well.
fn cudart(soname: &str) -> PathBuf {
    let archive = cudart_archive();
    let changed = archive.metadata().and_then(|data| data.modified()).expect("the archive's time");
    kept(soname, (&archive, changed, soname), |to| {
        let script = to.with_extension("map");
        fs::write(&script, format!("{soname} {{ global: cuda*; local: *; }};\n"))
            .expect("a version script");
        let mut link = c::compiler();
        link.args(["-shared", "-s", "-o"]).arg(to).arg(format!("-Wl,-soname,{soname}"));
        link.arg(format!("-Wl,--version-script={}", script.display()));
        link.args(["-Wl,--gc-sections", "-Wl,--whole-archive"]).arg(&archive);
        link.args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm", "-lgcc_s"]);
        c::run(&mut link);
    })
}

/// A stand-in in this process, with a state of its own.
#[derive(Debug)]
pub struct Loaded {
    library: Library,
    path: PathBuf,
    _folder: TempDir,
}

impl Loaded {
    /// Loads a copy and configures it with `NAME=value;NAME=value`.
    ///
    /// The copy goes by another SONAME: else whoever opens the real name in this process, in hope
    /// of a real device, would be given the stand-in.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn new(double: Double, configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(double.file_name());
        let bytes = fs::read(double.file()).expect("the stand-in");
        fs::write(&path, renamed(bytes, double.soname())).expect("a copy of the stand-in");
        // SAFETY: a stand-in has no initialisers.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }
            .expect("the copy just made");
        let loaded = Self { library, path, _folder: folder };
        let text = CString::new(configuration).expect("a configuration without zero bytes");
        let configure: unsafe extern "C" fn(*const c_char) -> u32 =
            // SAFETY: this is the function's type.
            unsafe { loaded.function("double_configure") };
        // SAFETY: the text ends with a zero byte.
        assert_eq!(unsafe { configure(text.as_ptr()) }, 0, "not a configuration: {configuration}");
        loaded
    }

    /// The file, for a backend's `open_at`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A function of the stand-in. It stays loaded for as long as `self` lives.
    ///
    /// # Panics
    /// When there is none of this name.
    ///
    /// # Safety
    /// `F` is the function's type, a pointer.
    #[must_use]
    pub unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        *found.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// How often a function was called.
    #[must_use]
    pub fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("a name without zero bytes");
        let calls: unsafe extern "C" fn(*const c_char) -> u64 =
            // SAFETY: this is the function's type.
            unsafe { self.function("double_calls") };
        // SAFETY: the name ends with a zero byte.
        unsafe { calls(name.as_ptr()) }
    }

    /// How many devices have a context now.
    #[must_use]
    pub fn contexts(&self) -> i32 {
        let contexts: extern "C" fn() -> c_int =
            // SAFETY: this is the function's type, and it has no conditions.
            unsafe { self.function("double_contexts") };
        contexts()
    }

    /// How many contexts were ever made.
    #[must_use]
    pub fn contexts_made(&self) -> u64 {
        let contexts: extern "C" fn() -> u64 =
            // SAFETY: this is the function's type, and it has no conditions.
            unsafe { self.function("double_contexts_made") };
        contexts()
    }
}

/// The library with another SONAME of the same length.
fn renamed(mut bytes: Vec<u8>, soname: &str) -> Vec<u8> {
    let name = [soname.as_bytes(), b"\0"].concat();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(name.len()).position(|window| window == name) {
        at += found;
        bytes[at..at + 3].copy_from_slice(b"dbl");
    }
    assert_ne!(at, 0, "a stand-in without its SONAME {soname}");
    bytes
}

/// A folder with stand-ins under the names that programs know.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
}

impl Folder {
    /// Makes one.
    ///
    /// # Panics
    /// When a stand-in is not there, or cannot be linked to.
    #[must_use]
    pub fn new(doubles: &[Double]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for double in doubles {
            let to = folder.path().join(double.soname());
            symlink(double.file(), to).expect("a link to the stand-in");
        }
        Self { folder }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Adds the runtime for CUDA, as `libcudart.so.<version>` with that symbol version.
    ///
    /// # Panics
    /// When the archive is not there, or cannot be linked.
    #[must_use]
    pub fn with_cudart(self, version: u32) -> Self {
        let soname = format!("libcudart.so.{version}");
        symlink(cudart(&soname), self.path().join(&soname)).expect("a link to the runtime");
        self
    }

    /// A command that finds the stand-ins, and nothing that cargo or the caller had set.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["DORMANT_", "TMS_", "LD_", "CUDA_", "HIP_"].iter().any(|own| name.starts_with(own))
            {
                command.env_remove(&*name);
            }
        }
        command.env("LD_LIBRARY_PATH", self.path());
        command
    }
}
