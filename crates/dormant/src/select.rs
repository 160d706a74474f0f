//! Which driver: the one file that reads the backend features.

use std::str::FromStr;

use allocator_core::{Error, ErrorKind, Operation, Result};

#[cfg(not(any(feature = "cuda", feature = "sim")))]
compile_error!(
    "dormant needs a backend: add a feature, as in \
     `dormant = { version = \"0.1\", features = [\"cuda\"] }` (there are `cuda` and `sim`)"
);

/// The backends there are, compiled in or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// NVIDIA's driver API.
    Cuda,
    /// The simulated device.
    Sim,
}

impl Backend {
    const ALL: [Self; 2] = [Self::Cuda, Self::Sim];

    /// Its name, which is also its feature's: `cuda`, `sim`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Sim => "sim",
        }
    }

    /// Whether it is compiled in.
    #[must_use]
    pub const fn is_compiled_in(self) -> bool {
        match self {
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Sim => cfg!(feature = "sim"),
        }
    }

    /// Those that are compiled in, in the order in which [`open`] looks for them.
    pub fn compiled_in() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|backend| backend.is_compiled_in())
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(|| {
            let text = format!("no backend is called `{name}`; there are cuda and sim");
            Error::new(ErrorKind::InvalidArgument, Operation::Open, text)
        })
    }
}

cfg_if::cfg_if! {
    if #[cfg(all(feature = "cuda", feature = "sim"))] {
        #[allow(unsafe_code, reason = "the macro hands each call on to one of the drivers")]
        mod any {
            allocator_core::any_driver! {
                /// The driver that was found. One per process.
                pub enum Driver, AnyPhysical, AnyStream {
                    Cuda(dormant_cuda::Cuda),
                    Sim(dormant_sim::Sim),
                }
            }
        }
        pub use any::Driver;
    } else if #[cfg(feature = "cuda")] {
        /// The driver compiled in.
        pub type Driver = dormant_cuda::Cuda;
    } else if #[cfg(feature = "sim")] {
        /// The driver compiled in.
        pub type Driver = dormant_sim::Sim;
    }
}

/// Opens the driver of `backend`; of `None`, the one that `DORMANT_BACKEND` names, else the one
/// that is present. The simulated device is only taken when it is named, or compiled in alone.
/// No context is made and no memory is taken.
///
/// # Errors
/// `NoDriver`, saying what is missing; `NotSupported` for a backend that is not compiled in;
/// `InvalidArgument` for a name that no backend has.
pub fn open(backend: Option<Backend>) -> Result<Driver> {
    let asked = match backend {
        Some(backend) => Some(backend),
        None => match std::env::var("DORMANT_BACKEND") {
            Ok(name) if !name.is_empty() => Some(name.parse()?),
            _ => None,
        },
    };
    if let Some(backend) = asked {
        return open_one(backend);
    }
    let mut compiled_in = Backend::compiled_in();
    let first = compiled_in.next();
    let alone = compiled_in.next().is_none();
    match first {
        // One backend, or the first real one; with one real backend there is nothing to choose.
        Some(backend) if alone || backend != Backend::Sim => open_one(backend),
        _ => Err(not_compiled_in(Backend::Cuda)),
    }
}

#[allow(clippy::useless_conversion, reason = "with one backend the driver is that very type")]
fn open_one(backend: Backend) -> Result<Driver> {
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => dormant_cuda::Cuda::open().map(Into::into),
        #[cfg(feature = "sim")]
        Backend::Sim => {
            dormant_sim::SimConfig::from_env().and_then(dormant_sim::Sim::new).map(Into::into)
        }
        #[cfg(not(all(feature = "cuda", feature = "sim")))]
        other => Err(not_compiled_in(other)),
    }
}

fn not_compiled_in(backend: Backend) -> Error {
    let have: Vec<_> = Backend::compiled_in().map(Backend::name).collect();
    let text = format!(
        "this build has no backend `{}` (compiled in: {}); build with the feature of that name",
        backend.name(),
        have.join(", ")
    );
    Error::new(ErrorKind::NotSupported, Operation::Open, text)
}
