//! The library's name for the loader, and that it is never unloaded: others keep its addresses.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdormant.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
