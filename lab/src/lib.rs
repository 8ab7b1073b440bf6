//! The site in a box: namespaces, OVS and OVN, hypervisors, guests, packets
