//! C programs under our preload libraries, on the stand-ins.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::c::{program, said};
use crate::doubles::{Double, Folder, find_built};

/// What a program is linked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The CUDA runtime of a major version.
    Cuda(u32),
    /// HIP. The programs are compiled with `FOR_HIP`.
    Hip,
}

impl Runtime {
    /// A folder with its stand-ins.
    ///
    /// # Panics
    /// When one is not built, or cannot be linked to.
    #[must_use]
    pub fn folder(self) -> Folder {
        match self {
            Self::Cuda(version) => Folder::new(&[Double::Cuda]).with_cudart(version),
            Self::Hip => Folder::new(&[Double::Hip]),
        }
    }

    /// Compiles a program of `c/` and links it to the runtime in `folder`; `more` goes to the
    /// compiler.
    ///
    /// # Panics
    /// With the compiler's words when that fails.
    #[must_use]
    pub fn compile(self, folder: &Folder, source: &str, more: &[&str]) -> PathBuf {
        let search = format!("-L{}", folder.path().display());
        let runtime = match self {
            Self::Cuda(version) => format!("-l:libcudart.so.{version}"),
            Self::Hip => "-l:libamdhip64.so.7".to_owned(),
        };
        let mut arguments = vec![search.as_str(), "-pthread", &runtime, "-ldl"];
        if self == Self::Hip {
            arguments.push("-DFOR_HIP");
        }
        arguments.extend(more);
        program(source, &arguments)
    }
}

/// Which of our files is preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preload {
    /// `libdormant.so` itself.
    Library,
    /// The small file that hands calls on, under the name that torch_memory_saver has for it.
    Shim,
}

/// The path of `libdormant.so` in a folder that is laid out as the drop-in's wheel.
const LIBRARY: &str = "torch_memory_saver/_dormant/_lib/libdormant.so";
/// The names of two of the small files there.
const PRELOAD_SHIM: &str = "torch_memory_saver_hook_mode_preload.abi3.so";
const TORCH_SHIM: &str = "torch_memory_saver_hook_mode_torch.abi3.so";

/// A folder with the stand-ins, our libraries as a wheel lays them, and compiled programs.
#[derive(Debug)]
pub struct Hooked {
    folder: Folder,
    runtime: Runtime,
    preload: Preload,
}

impl Hooked {
    /// Makes one.
    ///
    /// # Panics
    /// When something is not built, or cannot be laid out.
    #[must_use]
    pub fn new(runtime: Runtime, preload: Preload) -> Self {
        let folder = runtime.folder();
        let library = folder.path().join(LIBRARY);
        fs::create_dir_all(library.parent().expect("a folder")).expect("a folder for the library");
        symlink(find_built("libdormant_capi.so", "dormant-capi"), library).expect("a link");
        let shim = find_built("libdormant_shim.so", "dormant-shim");
        for name in [PRELOAD_SHIM, TORCH_SHIM] {
            fs::copy(&shim, folder.path().join(name)).expect("a copy of the shim");
        }
        Self { folder, runtime, preload }
    }

    /// With each runtime, under each of our files.
    pub fn everywhere() -> impl Iterator<Item = Self> {
        [
            (Runtime::Cuda(13), Preload::Library),
            (Runtime::Cuda(12), Preload::Shim),
            (Runtime::Hip, Preload::Library),
            (Runtime::Hip, Preload::Shim),
        ]
        .into_iter()
        .map(|(runtime, preload)| Self::new(runtime, preload))
    }

    /// With a runtime of each vendor, under `libdormant.so`: for what the file makes no difference.
    pub fn both() -> impl Iterator<Item = Self> {
        [Runtime::Cuda(13), Runtime::Hip]
            .into_iter()
            .map(|runtime| Self::new(runtime, Preload::Library))
    }

    /// What its programs are linked to.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// Which file is preloaded.
    #[must_use]
    pub fn preload(&self) -> Preload {
        self.preload
    }

    /// Where all of it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `libdormant.so`.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.path().join(LIBRARY)
    }

    /// The file that is preloaded.
    #[must_use]
    pub fn preloaded(&self) -> PathBuf {
        match self.preload {
            Preload::Library => self.library(),
            Preload::Shim => self.path().join(PRELOAD_SHIM),
        }
    }

    /// The small file for torch's mode.
    #[must_use]
    pub fn torch_shim(&self) -> PathBuf {
        self.path().join(TORCH_SHIM)
    }

    /// Compiles a program of `c/` and links it to the runtime; `more` goes to the compiler.
    ///
    /// # Panics
    /// With the compiler's words when that fails.
    #[must_use]
    pub fn compile(&self, source: &str, more: &[&str]) -> PathBuf {
        self.runtime.compile(&self.folder, source, more)
    }

    /// A command under the preload, with one simulated device of 64 MiB.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.folder.command(program);
        command.env("LD_PRELOAD", self.preloaded()).env("TEST_LIBRARY", self.library());
        command.env("DORMANT_SIM_DEVICES", "1").env("DORMANT_SIM_CAPACITY", "64MiB");
        command
    }

    /// Compiles a program and runs one of its cases, which is to end well and silently.
    ///
    /// # Panics
    /// When it does not.
    pub fn run(&self, source: &str, case: &str) {
        self.run_with(source, case, |_| {});
    }

    /// The same, with the command changed.
    ///
    /// # Panics
    /// When it does not end well.
    pub fn run_with(&self, source: &str, case: &str, change: impl FnOnce(&mut Command)) {
        let mut command = self.command(self.compile(source, &[]));
        command.arg(case);
        change(&mut command);
        self.expect_well(case, &command.output().expect("a run"));
    }

    /// Holds that a run ended well: with exit code 0, a silent standard error, and its last word.
    ///
    /// # Panics
    /// When it did not.
    pub fn expect_well(&self, case: &str, output: &Output) {
        let Self { runtime, preload, .. } = self;
        let what = format!("{case} with {runtime:?} under {preload:?}: {}", said(output));
        assert!(output.status.success(), "{what}");
        assert!(output.stderr.is_empty(), "{what}");
        assert!(output.stdout.ends_with(b"all is well\n"), "{what}");
    }
}
