//! What every library file of dormant shares: finding the one instance of the process, the real
//! functions behind the hooks, and the hooks' exported names.
//!
//! A byte copy of a library has state of its own, and several files of ours may be loaded at once
//! (the preload file, the one that Python opens, a copy in another wheel). So each of them takes
//! as *the instance* the first object in the order of loading that exports [`INSTANCE_SYMBOL`], and
//! hands its calls on. The loader only ever appends to that order, and our libraries are never
//! unloaded (`-z nodelete`), so all of them find the same one without a lock.

mod hooks;
mod instance;
pub mod loaded;
pub mod real;

pub use hooks::{
    Api, BeginCaptureFn, BeginCaptureToFn, CaptureTo, DisablePeerFn, EnablePeerFn, EndCaptureFn,
    FreeFn, Hooks, IpcGetFn, MallocFn, NOT_INITIALIZED, Pointer, Raw,
};
pub use instance::{
    INSTANCE_ABI, INSTANCE_SYMBOL, Instance, OpenInstance, Resolved, SERVES_SYMBOL, instance,
    served_at,
};
pub use loaded::Object;
