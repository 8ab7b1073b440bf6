//! A stand-in for the in-cluster IPAM provider
