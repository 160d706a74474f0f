//! The crate against runtime libraries that have no device behind them. Needs a C compiler.

#[cfg(test)]
mod calls;
mod fake;
#[cfg(test)]
mod open;
#[cfg(test)]
mod quiesce;
#[cfg(test)]
mod quirks;
#[path = "../../../cuda/tests/suite/stand_in.rs"]
mod stand_in;
#[cfg(test)]
mod vacate;
