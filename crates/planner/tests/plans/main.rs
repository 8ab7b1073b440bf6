//! The planner, proved: cases (what is planned in one observed state), the gateway rows of one
//! router step by step, and stories in a world that plays the API server, Kube-OVN, the IPAM
//! provider and OVN, where every key is planned and carried out until all is quiet.

#![allow(clippy::expect_used, clippy::panic)] // functions that tests share are tests, too

mod build;
mod cases;
mod essence;
mod explained;
mod gateways;
mod numbers;
mod previews;
mod random;
mod stories;
mod value;
mod view;
mod world;
mod writes;
