//! How many addresses a pool has to give, by its spec alone.

use serde_json::{Value, json};

use super::bench::Bench;

async fn has(spec: Value, total: i64) {
    let bench = Bench::new().await;
    bench.pool("pool", spec).await;
    bench.counts("pool", [total, 0, total, 0]).await;
}

macro_rules! totals {
    ($($case:ident: $spec:tt => $total:expr;)*) => {
        $(#[tokio::test]
        async fn $case() {
            has(json!($spec), $total).await;
        })*
    };
}

totals! {
    a_single_address_counts_one:
        {"addresses": ["10.0.0.7"], "prefix": 24} => 1;
    the_recorded_range_has_128:
        {"addresses": ["172.20.10.64-172.20.10.191"], "gateway": "172.20.10.1", "prefix": 24} => 128;
    a_list_counts_each:
        {"addresses": ["10.0.0.7", "10.0.0.9", "10.0.0.20-10.0.0.21"], "prefix": 24} => 4;
    what_is_listed_twice_counts_once:
        {"addresses": ["10.0.0.10-10.0.0.19", "10.0.0.15-10.0.0.24", "10.0.0.12"], "prefix": 24} => 15;
    of_a_cidr_network_and_broadcast_do_not_count:
        {"addresses": ["10.0.0.0/24"], "prefix": 24} => 254;
    host_bits_of_a_cidr_say_nothing:
        {"addresses": ["10.0.0.77/24"], "prefix": 24} => 254;
    a_cidr_within_the_prefix_counts_whole:
        {"addresses": ["10.0.0.64/26"], "prefix": 24} => 64;
    the_gateway_does_not_count:
        {"addresses": ["10.0.0.0/24"], "prefix": 24, "gateway": "10.0.0.1"} => 253;
    a_gateway_beside_the_range_takes_nothing_from_it:
        {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "gateway": "10.0.0.1"} => 10;
    a_gateway_outside_the_prefix_is_accepted:
        {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "gateway": "10.9.0.1"} => 10;
    an_empty_gateway_is_none:
        {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "gateway": ""} => 10;
    reserved_addresses_count_where_they_are_given_out_too:
        {"addresses": ["10.0.0.0/24"], "prefix": 24, "allocateReservedIPAddresses": true} => 256;
    the_gateway_does_not_count_even_where_it_is_a_reserved_address:
        {"addresses": ["10.0.0.0/24"], "prefix": 24, "gateway": "10.0.0.0",
         "allocateReservedIPAddresses": true} => 255;
    what_is_reserved_goes_by_the_prefix_and_not_by_the_cidr_listed:
        {"addresses": ["10.0.1.0/24"], "prefix": 16} => 256;
    excluded_addresses_do_not_count:
        {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24,
         "excludedAddresses": ["10.0.0.10", "10.0.0.12-10.0.0.13"]} => 7;
    a_cidr_can_be_excluded:
        {"addresses": ["10.0.0.0/24"], "prefix": 24, "excludedAddresses": ["10.0.0.0/25"]} => 127;
    what_is_excluded_twice_counts_once:
        {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24,
         "excludedAddresses": ["10.0.0.10-10.0.0.11", "10.0.0.11", "10.0.0.200"]} => 8;
    excluded_addresses_may_be_outside_the_prefix:
        {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "excludedAddresses": ["10.9.0.0/16"]} => 10;
    everything_may_be_excluded:
        {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "excludedAddresses": ["10.0.0.0/24"]} => 0;
    a_slash_32_has_nothing_to_give:
        {"addresses": ["10.0.0.7"], "prefix": 32} => 0;
    a_slash_31_has_nothing_to_give:
        {"addresses": ["10.0.0.6/31"], "prefix": 31} => 0;
    a_slash_31_gives_both_where_reserved_addresses_are_given_out:
        {"addresses": ["10.0.0.6/31"], "prefix": 31, "allocateReservedIPAddresses": true} => 2;
    a_prefix_of_no_length_reserves_the_ends_of_all_addresses:
        {"addresses": ["0.0.0.0-0.0.0.9"], "prefix": 0} => 9;
    of_ipv6_only_the_anycast_address_is_reserved:
        {"addresses": ["fd00::/120"], "prefix": 120} => 255;
    of_ipv6_the_anycast_address_counts_where_it_is_given_out_too:
        {"addresses": ["fd00::/120"], "prefix": 120, "allocateReservedIPAddresses": true} => 256;
    an_ipv6_gateway_does_not_count:
        {"addresses": ["fd00::10-fd00::1f"], "prefix": 64, "gateway": "fd00::1f"} => 15;
    more_addresses_than_a_number_can_say_are_the_largest_number:
        {"addresses": ["fd00::/56"], "prefix": 56} => i64::MAX;
}

#[tokio::test]
async fn counts_follow_the_spec() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24});
    bench.pool("pool", spec).await;
    bench.counts("pool", [10, 0, 10, 0]).await;
    for (spec, total) in [
        (json!({"addresses": ["10.0.0.10-10.0.0.29"]}), 20),
        (json!({"excludedAddresses": ["10.0.0.11"]}), 19),
        (json!({"gateway": "10.0.0.12"}), 18),
        (json!({"prefix": 31}), 18),
        (json!({"addresses": ["10.0.0.11"], "prefix": 24}), 0),
    ] {
        let changed = bench.change_pool("pool", json!({"spec": spec})).await;
        if spec["prefix"] == 31 {
            // The other addresses are outside it.
            assert!(changed.is_err(), "{changed:?}");
        }
        bench.counts("pool", [total, 0, total, 0]).await;
    }
}
