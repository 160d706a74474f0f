//! What tests ask of a stand-in, besides what programs ask.

/// Exports the functions for tests.
#[macro_export]
macro_rules! control_exports {
    () => {
        /// Takes `NAME=value;NAME=value` in place of the environment, before any other call. Zero
        /// when that is done.
        ///
        /// # Safety
        /// The text ends with a zero byte.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn double_configure(text: *const std::ffi::c_char) -> $crate::Code {
            // SAFETY: the caller's promise.
            let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned();
            $crate::calls::call("double_configure", move || $crate::machine::configure(&text))
        }

        /// How often a function was called.
        ///
        /// # Safety
        /// The name ends with a zero byte.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn double_calls(name: *const std::ffi::c_char) -> u64 {
            // SAFETY: the caller's promise.
            let name = unsafe { std::ffi::CStr::from_ptr(name) };
            $crate::calls::calls(&name.to_string_lossy())
        }

        /// How many devices have a context now.
        #[unsafe(no_mangle)]
        pub extern "C" fn double_contexts() -> std::ffi::c_int {
            let count = $crate::machine::existing().map_or(0, |machine| machine.contexts());
            std::ffi::c_int::try_from(count).unwrap_or(std::ffi::c_int::MAX)
        }

        /// How many contexts were ever made.
        #[unsafe(no_mangle)]
        pub extern "C" fn double_contexts_made() -> u64 {
            $crate::machine::existing().map_or(0, |machine| machine.contexts_made())
        }

        /// Counts calls from zero again. The machine stays as it is.
        #[unsafe(no_mangle)]
        pub extern "C" fn double_reset() {
            $crate::calls::reset();
        }
    };
}
