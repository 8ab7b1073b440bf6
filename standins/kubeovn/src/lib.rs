//! A stand-in for kube-ovn-controller and kube-ovn-cni.

pub mod cni;
