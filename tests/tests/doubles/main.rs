//! The stand-ins themselves: what they export, how programs find them, what they answer and count.

mod api;
mod counters;
mod exports;
mod program;
mod truth;
