//! What several of the integration tests need. The tests themselves are in `tests/`.

pub mod c;
pub mod doubles;
pub mod hooked;
mod kept;
pub mod peer;
