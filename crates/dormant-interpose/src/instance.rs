//! The instance: the one library of ours in the process that has the engine.

use std::ffi::{CStr, c_char, c_void};

use crate::hooks::Hooks;
use crate::loaded::{self, Object};

/// The name of the function that a library with an engine exports: `*const Instance f(void)`.
pub const INSTANCE_SYMBOL: &CStr = c"dormant_instance";

/// The name of the function by which every library of ours says which instance its hooks hand calls on
/// to: `*const Instance f(void)`, NULL where they are the real functions.
pub const SERVES_SYMBOL: &CStr = c"dormant_serves";

/// The shape of [`Instance`]. The first two fields never change.
pub const INSTANCE_ABI: u32 = 1;

/// What a library with an engine says of itself.
#[repr(C)]
#[derive(Debug)]
pub struct Instance {
    /// [`INSTANCE_ABI`] of the library's build.
    pub abi: u32,
    /// Which build it is: one line, NUL-terminated.
    pub build: *const c_char,
    /// What its hooks do, given the real functions of the library that was called.
    pub hooks: Hooks,
}

// SAFETY: an instance is constant data; the pointer is to a literal.
unsafe impl Sync for Instance {}
// SAFETY: as above.
unsafe impl Send for Instance {}

/// The type of the functions named [`INSTANCE_SYMBOL`] and [`SERVES_SYMBOL`].
pub type OpenInstance = unsafe extern "C" fn() -> *const Instance;

/// The instance, as seen from one library file.
#[derive(Debug)]
pub enum Resolved {
    /// There is none, and the text says why none could be loaded.
    None(String),
    /// This library's own.
    Own(&'static Instance),
    /// Another file's, of the same build.
    Other(&'static Instance, Object),
    /// Another file's, of another build; the text names both.
    Foreign(String),
}

impl Resolved {
    /// The instance, unless it is of another build.
    #[must_use]
    pub fn get(&self) -> Option<&'static Instance> {
        match self {
            Self::Own(instance) | Self::Other(instance, _) => Some(instance),
            Self::None(_) | Self::Foreign(_) => None,
        }
    }
}

/// Finds the process's instance. `own` is this library's own, if it has one, and `build` the build
/// that it must be of (a library that only hands calls on can do with any that has the same
/// interface); where there is none, one may be `load`ed.
pub fn instance(
    own: Option<&'static Instance>,
    build: Option<&CStr>,
    load: impl FnOnce() -> Result<(), String>,
) -> Resolved {
    let mut found = first();
    if found.is_none() {
        if let Err(why) = load() {
            return Resolved::None(why);
        }
        found = first();
    }
    let Some((object, instance)) = found else {
        return match own {
            Some(own) => Resolved::Own(own), // Linked into a program that exports nothing.
            None => Resolved::None("the library that was loaded has no engine".to_owned()),
        };
    };
    if own.is_some_and(|own| std::ptr::eq(own, instance)) {
        return Resolved::Own(instance);
    }
    let theirs = (instance.abi == INSTANCE_ABI).then(|| {
        // SAFETY: a NUL-terminated literal of a library that is never unloaded.
        unsafe { CStr::from_ptr(instance.build) }
    });
    if theirs.is_some() && (build.is_none() || theirs == build) {
        return Resolved::Other(instance, object);
    }
    let theirs = theirs.map_or_else(
        || format!("a build with another interface ({})", instance.abi),
        |build| build.to_string_lossy().into_owned(),
    );
    Resolved::Foreign(format!(
        "two builds of dormant are in this process: {} is {theirs}; this library is {}",
        object.path.to_string_lossy(),
        build.unwrap_or(c"one with another interface").to_string_lossy(),
    ))
}

/// The instance that the hooks of the library at an address hand calls on to.
#[must_use]
pub fn served_at(address: *const c_void) -> Option<*const Instance> {
    let serves = loaded::at(address)?.own_symbol(SERVES_SYMBOL)?;
    // SAFETY: a function of this name has this type; it is our own.
    let serves = unsafe { std::mem::transmute::<*mut c_void, OpenInstance>(serves) };
    // SAFETY: it has no conditions.
    let instance = unsafe { serves() };
    (!instance.is_null()).then_some(instance)
}

/// The first object with an engine, in the order of loading.
fn first() -> Option<(Object, &'static Instance)> {
    loaded::objects().into_iter().find_map(|object| {
        let open = object.own_symbol(INSTANCE_SYMBOL)?;
        // SAFETY: a function of this name has this type; it is our own.
        let open = unsafe { std::mem::transmute::<*mut c_void, OpenInstance>(open) };
        // SAFETY: it returns the address of constant data and has no conditions.
        let instance = unsafe { open() };
        // SAFETY: constant data of a library that is never unloaded.
        let instance = unsafe { instance.as_ref() }?;
        Some((object, instance))
    })
}
