//! With every replica gone: writes that rules are for fail closed, everything else goes on.

use serde_json::json;

use super::{
    bench::{Bench, path_of_networks, path_of_vpcs, path_of_zones, vpc, zone},
    guard::{CONTROLLER, network, workers},
};

/// A zone, a VPC, its network (whose path this is), and a webhook that is gone.
async fn deserted() -> (Bench, String) {
    let mut bench = Bench::new().await;
    bench.namespace("tenant-d", &json!({})).await;
    for object in [
        zone("default", "vmbr1", "default"),
        vpc("tenant-d", "main", workers()),
    ] {
        let made = bench.create(&object).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
    let network = network("tenant-d");
    let made = bench.create_as(CONTROLLER, &network).await;
    assert_eq!(made.code, 201, "{made:?}");
    bench.take_webhook().stop().await;
    let name = network["metadata"]["name"].as_str().expect("a name");
    let path = format!("{}/{name}", path_of_networks("tenant-d"));
    (bench, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_webhook_writes_of_guarded_kinds_fail_and_upkeep_and_removal_go_on() {
    let (bench, network_path) = deserted().await;
    let vpc_path = format!("{}/main", path_of_vpcs("tenant-d"));
    let zone_path = format!("{}/default", path_of_zones());
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    for answer in [
        bench.create(&vpc("tenant-d", "other", json!({}))).await,
        bench.create(&zone("other", "vmbr2", "other")).await,
        bench.merge(&bench.client, &vpc_path, &label).await,
        bench.merge(&bench.client, &zone_path, &label).await,
        bench.merge(&bench.client, &network_path, &label).await,
        bench.delete(&bench.client, &network_path).await,
    ] {
        assert_eq!(answer.code, 500, "{answer:?}");
        assert!(
            answer.message().contains("failed calling webhook"),
            "{answer:?}"
        );
    }

    // Statuses are not asked about, whoever writes them.
    for path in [&network_path, &vpc_path, &zone_path] {
        let status = json!({"status": {"observedGeneration": 1}});
        let path = format!("{path}/status");
        let written = bench.merge(&bench.client, &path, &status).await;
        assert_eq!(written.code, 200, "{written:?}");
    }
    // The controller goes on.
    let controller = bench.client_of(CONTROLLER);
    let kept = bench.merge(&controller, &network_path, &label).await;
    assert_eq!(kept.code, 200, "{kept:?}");
    // A namespace that goes takes its objects, and the controller lets go of them.
    let namespaces = bench.client_of("system:serviceaccount:kube-system:namespace-controller");
    for path in [path_of_networks("tenant-d"), path_of_vpcs("tenant-d")] {
        let gone = bench.delete(&namespaces, &path).await;
        assert_eq!(gone.code, 200, "{gone:?}");
    }
    let free = json!({"metadata": {"finalizers": null}});
    let freed = bench.merge(&controller, &network_path, &free).await;
    assert_eq!(freed.code, 200, "{freed:?}");
    // A zone and a VPC are deleted without being asked about.
    let gone = bench.delete(&bench.client, &zone_path).await;
    assert_eq!(gone.code, 200, "{gone:?}");
    for path in [network_path, vpc_path, zone_path] {
        let request = http::Request::get(&path).body(kube::client::Body::empty());
        let left = bench.send(request.expect("a request")).await;
        assert_eq!(left.code, 404, "{left:?}");
    }
}
