//! The stand-in of Kube-OVN against the API's stand-in and a real northbound database, compared
//! with what was recorded of Kube-OVN 1.15.10.
//!
//! `data` holds the recorded objects and rows of a site with one VPC, a VLAN subnet with logical
//! gateway, a private overlay subnet and two pods.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may")]

mod bench;
mod foreign;
mod full;
mod links;
mod packets;
mod pods;
mod recorded;
mod rows;
mod subnets;
mod trunks;
mod vlans;
mod vpcs;
