//! The shape of an exported function.

/// Exports functions that answer with a code. With `find as`, makes a function that finds them by
/// name.
///
/// ```text
/// exports! { find as find via call;
///     fn cuDeviceGetCount(count: Out<'_, c_int>) { put(count, 1) }
/// }
/// ```
///
/// Each counts its calls and lets no panic out. A body ends in `Result<(), Refused>`.
#[macro_export]
macro_rules! exports {
    (@find $find:ident; $($name:ident)*) => {
        /// The address of an exported function.
        pub(crate) fn $find(name: &str) -> Option<*const std::ffi::c_void> {
            $(
                if name == stringify!($name) {
                    return Some($name as *const std::ffi::c_void);
                }
            )*
            None
        }
    };
    (@find; $($name:ident)*) => {};
    (
        $(find as $find:ident)? via $through:path;
        $($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*
    ) => {
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// That of the vendor's function of this name: pointers are null or good for what is
            /// read or written.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $crate::Code {
                $through(stringify!($name), move || $body)
            }
        )*

        $crate::exports! { @find $($find)?; $($name)* }
    };
}
