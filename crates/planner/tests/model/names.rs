//! Names and ids that other tools rely on.

use causeway_planner::model::{VpcKey, Wire};

#[test]
fn ids_are_the_ones_that_other_tools_rely_on() {
    let main = VpcKey::new("tenant-example", "main");
    assert_eq!(main.id().as_str(), "vpc-4cf9df");
    for (subnet, id) in [
        ("workers", "subnet-7bb6e3ad"),
        ("data", "subnet-23f8bcb1"),
        ("pods", "subnet-fc0705a0"),
    ] {
        assert_eq!(main.subnet_id(&subnet.into()).as_str(), id, "{subnet}");
    }
}

#[test]
fn a_label_leads_back_to_its_vpc() {
    let main = VpcKey::new("tenant-example", "main");
    assert_eq!(
        VpcKey::from_label("tenant-example", &main.label()),
        Some(main)
    );
    assert_eq!(VpcKey::from_label("tenant-example", "main"), None);
}

#[test]
fn a_provider_network_name_is_at_most_twelve_characters() {
    assert_eq!(Wire::from("default").provider_network(), "pve-default");
    assert_eq!(Wire::from("rack-two").provider_network(), "pve-rack-two");
    let long = Wire::from("rack-three").provider_network();
    assert_eq!(long.len(), 12);
    assert!(long.starts_with("pve-"));
}
