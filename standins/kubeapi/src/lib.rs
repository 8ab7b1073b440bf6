//! A stand-in for kube-apiserver: an in-process tower service
