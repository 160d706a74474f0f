//! Every driver call failed, in every transition: what a failed call must leave as it was, what a
//! pause that has committed still does, and what stays readable.

#[path = "../support/mod.rs"]
mod support;

mod checks;
mod device;
mod every_call;
mod quirks;
mod undo;
