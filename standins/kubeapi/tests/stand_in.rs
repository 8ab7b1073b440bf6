//! What the stand-in does beyond a real API server: the garbage collector as a step, counted
//! writes, given time, forgotten history, ways in.

#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a test that cannot go on has failed, and says why"
)]

mod beyond {
    pub mod doors;
    pub mod garbage;
    pub mod serving;
    pub mod setup;
}
