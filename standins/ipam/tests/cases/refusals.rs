//! What the webhook refuses in a pool's spec, word for word.

use serde_json::{Value, json};

use super::bench::{Bench, DENIED, refused};

const NO_ADDRESS: &str = "provided address is not a valid IP, range, nor CIDR";
const OUTSIDE: &str = "provided address belongs to a different subnet than others";

/// Each thing wrong: field, value by Go's syntax, why.
type Wrong<'a> = [(&'a str, &'a str, &'a str)];

async fn is_refused(spec: Value, wrong: &Wrong<'_>) {
    let bench = Bench::new().await;
    let status = refused(bench.try_pool("pool", spec.clone()).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let bodies: Vec<(String, String)> = wrong
        .iter()
        .map(|(field, value, why)| {
            (
                format!("spec.{field}"),
                format!("Invalid value: {value}: {why}"),
            )
        })
        .collect();
    let texts: Vec<String> = bodies
        .iter()
        .map(|(field, body)| format!("{field}: {body}"))
        .collect();
    let told = match &texts[..] {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    assert_eq!(
        status.message,
        format!("{DENIED}InClusterIPPool.ipam.cluster.x-k8s.io \"pool\" is invalid: {told}")
    );
    let details = status.details.expect("details");
    let causes: Vec<(String, String)> = details
        .causes
        .iter()
        .map(|cause| (cause.field.clone(), cause.message.clone()))
        .collect();
    assert_eq!(causes, bodies);
    assert_eq!(
        (
            details.group.as_str(),
            details.kind.as_str(),
            details.name.as_str()
        ),
        ("ipam.cluster.x-k8s.io", "InClusterIPPool", "pool")
    );
    // A change is refused alike.
    bench
        .pool("pool", json!({"addresses": ["198.51.100.9"], "prefix": 24}))
        .await;
    let mut whole = json!({"gateway": null, "excludedAddresses": null});
    json_patch::merge(&mut whole, &spec);
    let changed = bench.change_pool("pool", json!({"spec": whole})).await;
    assert_eq!(refused(changed).message, status.message);
}

macro_rules! refusals {
    ($($case:ident: $spec:tt => $wrong:expr;)*) => {
        $(#[tokio::test]
        async fn $case() {
            is_refused(json!($spec), &$wrong).await;
        })*
    };
}

refusals! {
    no_addresses_are_refused:
        {"addresses": [], "prefix": 24}
        => [("addresses", "[]string{}", "addresses is required")];
    what_is_no_address_is_refused:
        {"addresses": ["ten"], "prefix": 24} => [("addresses", "\"ten\"", NO_ADDRESS)];
    an_empty_address_is_refused:
        {"addresses": [""], "prefix": 24} => [("addresses", "\"\"", NO_ADDRESS)];
    a_reversed_range_is_refused:
        {"addresses": ["10.0.0.9-10.0.0.1"], "prefix": 24}
        => [("addresses", "\"10.0.0.9-10.0.0.1\"", NO_ADDRESS)];
    a_range_with_spaces_is_refused:
        {"addresses": ["10.0.0.1 - 10.0.0.9"], "prefix": 24}
        => [("addresses", "\"10.0.0.1 - 10.0.0.9\"", NO_ADDRESS)];
    a_range_of_two_families_is_refused:
        {"addresses": ["10.0.0.1-fd00::1"], "prefix": 24}
        => [("addresses", "\"10.0.0.1-fd00::1\"", NO_ADDRESS)];
    an_octet_with_a_leading_zero_is_refused:
        {"addresses": ["10.0.0.01"], "prefix": 24} => [("addresses", "\"10.0.0.01\"", NO_ADDRESS)];
    a_cidr_that_is_too_long_is_refused:
        {"addresses": ["10.0.0.0/33"], "prefix": 24} => [("addresses", "\"10.0.0.0/33\"", NO_ADDRESS)];
    each_wrong_address_is_told:
        {"addresses": ["ten", "10.0.0.1", "eleven"], "prefix": 24}
        => [("addresses", "\"ten\"", NO_ADDRESS), ("addresses", "\"eleven\"", NO_ADDRESS)];
    addresses_of_two_families_are_refused:
        {"addresses": ["10.0.0.1", "fd00::1"], "prefix": 24}
        => [("addresses", "[]string{\"10.0.0.1\", \"fd00::1\"}", "provided addresses are of mixed IP families")];
    addresses_of_two_subnets_are_refused:
        {"addresses": ["10.0.0.9", "10.0.1.9", "10.0.2.0/24"], "prefix": 24}
        => [("addresses", "\"10.0.1.9\"", OUTSIDE), ("addresses", "\"10.0.2.0/24\"", OUTSIDE)];
    a_range_over_two_subnets_is_refused:
        {"addresses": ["10.0.0.250-10.0.1.5"], "prefix": 24}
        => [("addresses", "\"10.0.0.250-10.0.1.5\"", OUTSIDE)];
    the_subnet_is_that_of_the_lowest_address_wherever_it_is_listed:
        {"addresses": ["10.0.1.9", "10.0.0.9"], "prefix": 24}
        => [("addresses", "\"10.0.1.9\"", OUTSIDE)];
    a_prefix_too_long_for_the_family_is_refused:
        {"addresses": ["10.0.0.9"], "prefix": 33}
        => [("prefix", "33", "provided prefix is not valid")];
    a_gateway_that_is_no_address_is_refused:
        {"addresses": ["10.0.0.9"], "prefix": 24, "gateway": "router"}
        => [("gateway", "\"router\"", "ParseAddr(\"router\"): unable to parse IP")];
    a_gateway_with_a_prefix_is_refused:
        {"addresses": ["10.0.0.9"], "prefix": 24, "gateway": "10.0.0.1/24"}
        => [("gateway", "\"10.0.0.1/24\"", "ParseAddr(\"10.0.0.1/24\"): unexpected character (at \"/24\")")];
    a_gateway_with_a_number_too_large_is_refused:
        {"addresses": ["10.0.0.9"], "prefix": 24, "gateway": "10.0.0.256"}
        => [("gateway", "\"10.0.0.256\"", "ParseAddr(\"10.0.0.256\"): IPv4 field has value >255")];
    a_gateway_of_the_other_family_is_refused:
        {"addresses": ["10.0.0.9"], "prefix": 24, "gateway": "fd00::1"}
        => [("gateway", "\"fd00::1\"", "provided gateway and addresses are of mixed IP families")];
    what_is_excluded_must_be_addresses:
        {"addresses": ["10.0.0.9"], "prefix": 24, "excludedAddresses": ["nine"]}
        => [("excludedAddresses", "\"nine\"", NO_ADDRESS)];
    what_is_excluded_must_be_of_the_same_family:
        {"addresses": ["10.0.0.9"], "prefix": 24, "excludedAddresses": ["fd00::1"]}
        => [("excludedAddresses", "[]string{\"fd00::1\"}", "addresses and excluded addresses are of mixed IP families")];
    what_is_excluded_must_be_of_one_family:
        {"addresses": ["10.0.0.9"], "prefix": 24, "excludedAddresses": ["fd00::1", "10.0.0.9"]}
        => [
            ("excludedAddresses", "[]string{\"fd00::1\", \"10.0.0.9\"}", "provided addresses are of mixed IP families"),
            ("excludedAddresses", "[]string{\"fd00::1\", \"10.0.0.9\"}", "addresses and excluded addresses are of mixed IP families"),
        ];
    all_that_is_wrong_is_told_at_once:
        {"addresses": ["ten", "10.0.0.9", "10.0.1.9"], "prefix": 24, "gateway": "1.2.3", "excludedAddresses": ["x"]}
        => [
            ("addresses", "\"ten\"", NO_ADDRESS),
            ("gateway", "\"1.2.3\"", "ParseAddr(\"1.2.3\"): IPv4 address too short"),
            ("excludedAddresses", "\"x\"", NO_ADDRESS),
        ];
}

#[tokio::test]
async fn the_definition_refuses_a_prefix_that_is_none() {
    let bench = Bench::new().await;
    for prefix in [-1, 129] {
        let spec = json!({"addresses": ["10.0.0.9"], "prefix": prefix});
        let request = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool",
            "metadata": {"name": "pool"}, "spec": spec,
        });
        let path = format!(
            "/apis/ipam.cluster.x-k8s.io/v1alpha2/namespaces/{}/inclusterippools",
            bench.namespace
        );
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(request.to_string().into_bytes())
            .expect("a request");
        let status = refused(bench.client.request::<Value>(request).await);
        assert_eq!(status.code, 422);
        assert!(status.message.contains("spec.prefix"), "{}", status.message);
    }
}

#[tokio::test]
async fn a_dry_run_is_refused_alike_and_makes_nothing() {
    use kube::api::PostParams;
    let bench = Bench::new().await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pool = |address| {
        super::bench::object(json!({
            "metadata": {"name": "pool"}, "spec": {"addresses": [address], "prefix": 24},
        }))
    };
    let status = refused(bench.pools.create(&dry, &pool("ten")).await);
    assert!(status.message.contains(NO_ADDRESS), "{}", status.message);
    let made = bench.pools.create(&dry, &pool("10.0.0.9")).await;
    made.expect("nothing wrong with it");
    let stored = bench.pools.get_opt("pool").await.expect("an answer");
    assert_eq!(stored, None);
}
