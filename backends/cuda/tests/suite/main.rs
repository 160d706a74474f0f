//! The crate against driver libraries that have no device behind them. Needs a C compiler.

#[cfg(test)]
mod calls;
mod fake;
#[cfg(test)]
mod open;
#[cfg(test)]
mod quiesce;
mod stand_in;
