//! The rules of admission: on documents, and counted.

#![allow(clippy::expect_used, clippy::panic)] // functions that tests share are tests, too

mod bounds;
mod cases;
mod guard;
