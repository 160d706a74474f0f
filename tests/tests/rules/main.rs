//! The engine's rules, as its crate lists them, where the conformance suite does not test them.

#[path = "../support/mod.rs"]
mod support;

mod captures;
mod child;
mod churn;
mod contexts;
mod counting;
mod errors;
mod exits;
mod forks;
mod frees;
mod others;
mod peers;
mod turns;
