//! Choices that are given by name: in settings, in the environment, through the C interface.

/// An enum whose variants have names: `ALL`, `name`, `Display` and `FromStr`.
macro_rules! named {
    (
        $what:literal,
        $(#[$meta:meta])*
        pub enum $Name:ident {
            $($(#[$of:meta])* $Variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        pub enum $Name {
            $($(#[$of])* $Variant,)+
        }

        impl $Name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$Variant,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = allocator_core::Error;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|one| one.name()).collect();
                    allocator_core::Error::new(
                        allocator_core::ErrorKind::InvalidArgument,
                        allocator_core::Operation::Engine,
                        format!("no {} is called `{name}`; there are {}", $what, names.join(", ")),
                    )
                })
            }
        }
    };
}

pub(crate) use named;
