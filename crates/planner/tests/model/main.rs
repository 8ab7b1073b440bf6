//! Values and single decisions, each on its own.

#![allow(clippy::expect_used, clippy::panic)] // functions that tests share are tests, too

mod addresses;
mod alloc;
mod conditions;
mod decision;
mod names;
mod vlans;
