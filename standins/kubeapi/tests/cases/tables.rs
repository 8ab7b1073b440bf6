//! Objects as tables.

use causeway_kubeapi::table;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::bench::{API_VERSION, Bench};

const AS_TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

async fn ready(bench: &Bench, name: &str) {
    let status = json!({"status": {"conditions": [
        {"type": "Other", "status": "False"}, {"type": "Ready", "status": "True", "reason": "Done"},
    ]}});
    bench
        .widgets
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("the status");
}

#[tokio::test]
async fn a_table_has_the_columns_of_the_crd_and_a_row_per_object() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"size": 3})).await;
    bench.make("two", &json!({})).await;
    ready(&bench, "one").await;
    let path = format!("/apis/{API_VERSION}/namespaces/{}/widgets", bench.namespace);
    let table = bench.raw(&path, AS_TABLE).await;
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    let columns: Vec<_> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| {
            (
                column["name"].clone(),
                column["type"].clone(),
                column["format"].clone(),
                column["priority"].clone(),
            )
        })
        .collect();
    let column = |name: &str, kind: &str, format: &str, priority: i64| {
        (json!(name), json!(kind), json!(format), json!(priority))
    };
    assert_eq!(
        columns,
        [
            column("Name", "string", "name", 0),
            column("Size", "integer", "", 0),
            column("Ready", "string", "", 0),
            column("Reason", "string", "", 1),
            column("Age", "date", "", 0),
        ]
    );
    let cells = |row: usize| table["rows"][row]["cells"].as_array().expect("cells")[..4].to_vec();
    assert_eq!(
        cells(0),
        [json!("one"), json!(3), json!("True"), json!("Done")]
    );
    assert_eq!(
        cells(1),
        [json!("two"), Value::Null, Value::Null, Value::Null]
    );
    let age = table["rows"][0]["cells"][4].as_str().expect("an age");
    assert!(age.ends_with('s'), "{age}");
    let object = &table["rows"][0]["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(object["metadata"]["name"], "one");
    assert!(table["metadata"]["resourceVersion"].is_string());
}

#[tokio::test]
async fn one_object_is_a_table_of_one_row() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"size": 3})).await;
    let path = format!(
        "/apis/{API_VERSION}/namespaces/{}/widgets/one",
        bench.namespace
    );
    let table = bench.raw(&path, AS_TABLE).await;
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
    let whole = bench
        .raw(&format!("{path}?includeObject=Object"), AS_TABLE)
        .await;
    assert_eq!(whole["rows"][0]["object"]["spec"]["size"], 3);
    let none = bench
        .raw(&format!("{path}?includeObject=None"), AS_TABLE)
        .await;
    assert_eq!(none["rows"][0]["object"], Value::Null);
}

#[tokio::test]
async fn a_kind_without_columns_shows_its_age() {
    let bench = Bench::new().await;
    let path = format!("/apis/{API_VERSION}/racks");
    let table = bench.raw(&path, AS_TABLE).await;
    let names: Vec<_> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| column["name"].clone())
        .collect();
    assert_eq!(names, [json!("Name"), json!("Age")]);
}

#[tokio::test]
async fn a_printed_table_looks_as_kubectls() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"size": 3})).await;
    bench.make("a-long-name", &json!({})).await;
    ready(&bench, "one").await;
    let path = format!("/apis/{API_VERSION}/namespaces/{}/widgets", bench.namespace);
    let mut table = table::fetch(&bench.client, &path).await.expect("a table");
    // Ages are what the case cannot know.
    for row in table["rows"].as_array_mut().expect("rows") {
        row["cells"][4] = "5s".into();
    }
    assert_eq!(
        table::print(&table, true),
        "NAME          SIZE   READY   REASON   AGE\n\
         a-long-name                           5s\n\
         one           3      True    Done     5s\n"
    );
    assert_eq!(
        table::print(&table, false),
        "NAME          SIZE   READY   AGE\n\
         a-long-name                  5s\n\
         one           3      True    5s\n"
    );
}
