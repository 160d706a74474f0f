//! Which driver: the one file that reads the backend features.

use std::str::FromStr;

use allocator_core::{Error, ErrorKind, Operation, Result};

#[cfg(not(any(feature = "cuda", feature = "hip", feature = "sim")))]
compile_error!(
    "dormant needs a backend: add a feature, as in \
     `dormant = { version = \"0.1\", features = [\"cuda\"] }` (there are `cuda`, `hip` and `sim`)"
);

/// The backends there are, compiled in or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// NVIDIA's driver API.
    Cuda,
    /// AMD's HIP runtime (ROCm).
    Hip,
    /// The simulated device.
    Sim,
}

impl Backend {
    const ALL: [Self; 3] = [Self::Cuda, Self::Hip, Self::Sim];

    /// Its name, which is also its feature's: `cuda`, `hip`, `sim`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Sim => "sim",
        }
    }

    /// Whether it is compiled in.
    #[must_use]
    pub const fn is_compiled_in(self) -> bool {
        match self {
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Hip => cfg!(feature = "hip"),
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
            let text = format!("no backend is called `{name}`; there are cuda, hip and sim");
            Error::new(ErrorKind::InvalidArgument, Operation::Open, text)
        })
    }
}

/// Makes the driver one of several.
#[cfg(any(
    all(feature = "cuda", feature = "hip"),
    all(feature = "cuda", feature = "sim"),
    all(feature = "hip", feature = "sim"),
))]
macro_rules! one_of {
    ($($variant:ident($driver:ty),)*) => {
        #[allow(unsafe_code, reason = "the macro hands each call on to one of the drivers")]
        mod any {
            allocator_core::any_driver! {
                /// The driver that was found. One per process.
                pub enum Driver, AnyPhysical, AnyStream { $($variant($driver),)* }
            }
        }
        pub use any::Driver;
    };
}

cfg_if::cfg_if! {
    if #[cfg(all(feature = "cuda", feature = "hip", feature = "sim"))] {
        one_of! { Cuda(dormant_cuda::Cuda), Hip(dormant_hip::Hip), Sim(dormant_sim::Sim), }
    } else if #[cfg(all(feature = "cuda", feature = "hip"))] {
        one_of! { Cuda(dormant_cuda::Cuda), Hip(dormant_hip::Hip), }
    } else if #[cfg(all(feature = "cuda", feature = "sim"))] {
        one_of! { Cuda(dormant_cuda::Cuda), Sim(dormant_sim::Sim), }
    } else if #[cfg(all(feature = "hip", feature = "sim"))] {
        one_of! { Hip(dormant_hip::Hip), Sim(dormant_sim::Sim), }
    } else if #[cfg(feature = "cuda")] {
        /// The driver compiled in.
        pub type Driver = dormant_cuda::Cuda;
    } else if #[cfg(feature = "hip")] {
        /// The driver compiled in.
        pub type Driver = dormant_hip::Hip;
    } else if #[cfg(feature = "sim")] {
        /// The driver compiled in.
        pub type Driver = dormant_sim::Sim;
    }
}

/// Opens the driver of `backend`; of `None`, the one that `DORMANT_BACKEND` names, else the first
/// of `cuda` and `hip` that is present. The simulated device is only taken when it is named, or
/// compiled in alone. No context is made and no memory is taken.
///
/// # Errors
/// `NoDriver`, saying what is missing; `NotSupported` for a backend that is not compiled in;
/// `InvalidArgument` for a name that no backend has; else the error of the driver that is present.
pub fn open(backend: Option<Backend>) -> Result<Driver> {
    let asked = match backend {
        Some(backend) => Some(backend),
        None => match std::env::var("DORMANT_BACKEND") {
            Ok(name) if !name.is_empty() => Some(name.parse()?),
            _ => None,
        },
    };
    match asked {
        Some(backend) => open_one(backend),
        None => open_present(),
    }
}

/// The first driver that is present. One that is there and does not start is an error, and no
/// reason to look on.
fn open_present() -> Result<Driver> {
    let mut missing: Option<Error> = None;
    for backend in Backend::compiled_in().filter(|backend| *backend != Backend::Sim) {
        match open_one(backend) {
            Err(error) if error.kind() == ErrorKind::NoDriver => {
                missing = Some(match missing {
                    Some(first) => first.with_note(error.text()),
                    None => error,
                });
            }
            answer => return answer,
        }
    }
    match missing {
        Some(error) if Backend::Sim.is_compiled_in() => {
            Err(error.with_note("DORMANT_BACKEND=sim takes the simulated device"))
        }
        Some(error) => Err(error),
        None => open_one(Backend::Sim),
    }
}

#[allow(clippy::useless_conversion, reason = "with one backend the driver is that very type")]
fn open_one(backend: Backend) -> Result<Driver> {
    match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => dormant_cuda::Cuda::open().map(Into::into),
        #[cfg(feature = "hip")]
        Backend::Hip => dormant_hip::Hip::open().map(Into::into),
        #[cfg(feature = "sim")]
        Backend::Sim => {
            dormant_sim::SimConfig::from_env().and_then(dormant_sim::Sim::new).map(Into::into)
        }
        #[cfg(not(all(feature = "cuda", feature = "hip", feature = "sim")))]
        other => Err(not_compiled_in(other)),
    }
}

#[cfg(not(all(feature = "cuda", feature = "hip", feature = "sim")))]
fn not_compiled_in(backend: Backend) -> Error {
    let have: Vec<_> = Backend::compiled_in().map(Backend::name).collect();
    let text = format!(
        "this build has no backend `{}` (compiled in: {}); build with the feature of that name",
        backend.name(),
        have.join(", ")
    );
    Error::new(ErrorKind::NotSupported, Operation::Open, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_go_by_their_names_and_gpus_come_first() {
        for backend in Backend::ALL {
            assert_eq!(backend.name().parse::<Backend>().unwrap(), backend);
        }
        let compiled_in: Vec<_> = Backend::compiled_in().collect();
        assert!(compiled_in.is_sorted_by_key(|backend| *backend as u8), "{compiled_in:?}");
        assert_eq!(Backend::ALL.last(), Some(&Backend::Sim));
        let error = "rocm".parse::<Backend>().unwrap_err();
        assert!(error.to_string().contains("cuda, hip and sim"), "{error}");
    }

    #[test]
    fn without_a_driver_every_library_that_was_looked_for_is_named() {
        let gpus: Vec<_> =
            Backend::compiled_in().filter(|backend| *backend != Backend::Sim).collect();
        if gpus.is_empty() || gpus.iter().any(|backend| open_one(*backend).is_ok()) {
            return;
        }
        let error = open_present().unwrap_err();
        if error.kind() == ErrorKind::NoDriver {
            for backend in gpus {
                let alone = open_one(backend).unwrap_err();
                assert!(error.text().contains(alone.text()), "{error} without {alone}");
            }
        }
    }
}
