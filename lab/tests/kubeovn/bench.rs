//! The pieces that every case needs: API, database, a CNI that writes down what it is told.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use causeway_api::{
    foreign_crds,
    kubeovn::{ProviderNetwork, Subnet, Vlan, Vpc},
};
use causeway_drive::Watched;
use causeway_kubeapi::{Clock, KubeApi};
use causeway_kubeovn::{
    KubeOvn, Options,
    cni::{Cni, CniError, PodRef, PodSandbox, Trunk, TrunkReport},
    monitors,
};
use causeway_lab::{
    Progress,
    ovn::{Ovn, Program, Schema, obtain},
};
use causeway_ovn::{
    Client as Northbound, Remote, Replica,
    nb::{LogicalRouter, LogicalSwitch},
    table::Table,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace, Node, Pod},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

/// Longest wait for what takes milliseconds.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Where everything namespaced is.
pub const NAMESPACE: &str = "tenant-example";

/// Kinds of the cases.
pub trait Object: Watched + Serialize {}

impl<K: Watched + Serialize> Object for K {}

pub struct Bench {
    pub client: Client,
    pub northbound: Northbound,
    pub cni: Notebook,
    api: KubeApi,
    ovn: Ovn,
    server: Server,
    kube_ovn: Option<KubeOvn>,
}

/// ovsdb-server with an empty northbound database, ended on drop.
struct Server {
    folder: tempfile::TempDir,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal("CONT");
        self.process.kill().expect("the server can be killed");
        self.process.wait().expect("the server ends");
    }
}

impl Server {
    fn start(ovn: &Ovn) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = |name: &str| folder.path().join(name);
        let made = Command::new(ovn.program(Program::OvsdbTool))
            .arg("create")
            .args([&file("db"), &ovn.schema(Schema::Northbound)])
            .status();
        assert!(made.expect("ovsdb-tool runs").success());
        let option = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let process = Command::new(ovn.program(Program::OvsdbServer))
            .args(["--log-file=/dev/null", "--no-chdir"])
            .arg(format!("--remote=punix:{}", file("sock").display()))
            .args([
                option("unixctl", &file("ctl")),
                option("pidfile", &file("pid")),
            ])
            .arg(file("db"))
            .stderr(Stdio::null())
            .spawn()
            .expect("ovsdb-server runs");
        Self { folder, process }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("sock")
    }

    /// The pid of the server itself: what was started may be a wrapper around it.
    fn signal(&self, signal: &str) {
        let Ok(pid) = std::fs::read_to_string(self.folder.path().join("pid")) else {
            return;
        };
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), pid.trim()])
            .status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Bench {
    /// Three nodes, two with the trunk label, and the stand-in.
    pub async fn start() -> Self {
        let mut bench = Self::without_kube_ovn().await;
        bench.start_kube_ovn();
        bench.ready::<Subnet>("join").await;
        bench.ready::<Subnet>("ovn-default").await;
        bench
    }

    pub async fn without_kube_ovn() -> Self {
        let ovn = obtain(&Progress::new(|step| println!("… {step}")))
            .await
            .expect("OVN is there");
        let server = Server::start(&ovn);
        let api = KubeApi::new(Clock::machine()).expect("the API starts");
        let client = api.client("admin");
        let northbound =
            Northbound::start(Remote::Unix(server.socket()), "OVN_Northbound", monitors());
        let bench = Self {
            client,
            northbound,
            cni: Notebook::default(),
            api,
            ovn,
            server,
            kube_ovn: None,
        };
        for definition in foreign_crds() {
            bench
                .create::<CustomResourceDefinition>(&json!(definition))
                .await;
        }
        bench
            .create::<Namespace>(&json!({"metadata": {"name": NAMESPACE}}))
            .await;
        for (node, trunk) in [("node1", true), ("node2", true), ("node3", false)] {
            let labels = trunk.then(|| json!({"proxmox.cozystack.io/trunk": "true"}));
            bench
                .create::<Node>(&json!({
                    "metadata": {"name": node, "labels": labels},
                }))
                .await;
        }
        bench
    }

    pub fn start_kube_ovn(&mut self) {
        self.kube_ovn = Some(KubeOvn::start(
            self.api.client("kube-ovn-controller"),
            self.northbound.clone(),
            self.cni.clone(),
            Options::default(),
        ));
    }

    pub async fn stop_kube_ovn(&mut self) {
        if let Some(kube_ovn) = self.kube_ovn.take() {
            kube_ovn.stop().await;
        }
    }

    /// Writes of the stand-in that changed something so far.
    pub fn writes(&self) -> u64 {
        let writes = self.api.writes();
        let theirs = writes
            .iter()
            .filter(|((identity, _), _)| identity == "kube-ovn-controller");
        theirs.map(|(_, count)| count).sum()
    }

    /// Holds the database still, or lets it go on.
    pub fn hold_northbound(&self, hold: bool) {
        self.server.signal(if hold { "STOP" } else { "CONT" });
    }

    pub fn nbctl(&self, args: &[&str]) -> String {
        let output = Command::new(self.ovn.program(Program::OvnNbctl))
            .arg(format!("--db=unix:{}", self.server.socket().display()))
            .args(args)
            .output()
            .expect("ovn-nbctl runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("ovn-nbctl writes text")
    }

    pub fn api<K: Object>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Creates an object given without kind.
    pub async fn create<K: Object>(&self, object: &Value) {
        create(&self.api::<K>(), object).await;
    }

    /// As [`Bench::api`], of the cases' own namespace.
    pub fn namespaced<K: Object + Resource<Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        self.within(NAMESPACE)
    }

    /// As [`Bench::api`], of some namespace.
    pub fn within<K: Object + Resource<Scope = NamespaceResourceScope>>(
        &self,
        namespace: &str,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub async fn patch<K: Object>(&self, name: &str, patch: Value) {
        let (api, params) = (self.api::<K>(), PatchParams::default());
        api.patch(name, &params, &Patch::Merge(patch))
            .await
            .expect("is patched");
    }

    pub async fn delete<K: Object>(&self, name: &str) {
        self.api::<K>()
            .delete(name, &DeleteParams::default())
            .await
            .expect("is deleted");
    }

    /// Waits until the object is such.
    pub async fn when<K: Object>(&self, name: &str, such: impl Fn(&K) -> bool) -> K {
        when(self.api(), name, such).await
    }

    /// Waits until the object is gone.
    pub async fn gone<K: Object>(&self, name: &str) {
        gone::<K>(self.api(), name).await;
    }

    pub async fn get<K: Object>(&self, name: &str) -> K {
        self.api::<K>().get(name).await.expect("is there")
    }

    /// Waits until its status says that it is ready, in the kind's own way.
    pub async fn ready<K: Object>(&self, name: &str) -> K {
        self.when(name, |object: &K| is_ready(&json!(object))).await
    }

    /// Waits until the Subnet is ready for this reason.
    pub async fn ready_with(&self, name: &str, reason: &str) {
        let wanted = ("True".to_owned(), reason.to_owned());
        self.when(name, |subnet| condition(subnet, "Ready") == wanted)
            .await;
    }

    /// Waits until the Subnet is refused for this reason, in words that contain these.
    pub async fn refused(&self, name: &str, reason: &str, words: &str) -> Subnet {
        let wanted = ("False".to_owned(), reason.to_owned());
        let subnet = self
            .when(name, |subnet| condition(subnet, "Ready") == wanted)
            .await;
        assert_eq!(
            condition(&subnet, "Error"),
            ("True".to_owned(), reason.to_owned())
        );
        let conditions = json!(subnet.status.as_ref().map(|status| &status.conditions));
        assert!(conditions.to_string().contains(words), "{conditions:#}");
        subnet
    }

    /// Waits until everything that wanted a pass had one: Subnets come last but for addresses and
    /// pods, in the order of their names.
    pub async fn settle(&self) {
        let name = "zz-settled";
        self.vpc(name, json!({})).await;
        let spec = json!({"vpc": name, "cidrBlock": "10.99.0.0/24", "provider": "ovn"});
        self.subnet("zzz", spec).await;
        self.ready::<Subnet>("zzz").await;
        self.delete::<Subnet>("zzz").await;
        self.gone::<Subnet>("zzz").await;
        self.delete::<Vpc>(name).await;
        self.gone::<Vpc>(name).await;
        self.northbound_when("the end of what settling made", |replica| {
            let switches = replica.rows::<LogicalSwitch>().unwrap_or_default();
            let routers = replica.rows::<LogicalRouter>().unwrap_or_default();
            switches.values().all(|row| row.name != "zzz")
                && routers.values().all(|row| row.name != name)
        })
        .await;
    }

    /// The Subnet is being deleted and still there after everything had its pass.
    pub async fn stays_terminating(&self, name: &str) {
        self.settle().await;
        let subnet = self.get::<Subnet>(name).await;
        assert!(
            subnet.metadata.deletion_timestamp.is_some(),
            "{name} is not being deleted"
        );
    }

    /// Waits until the database is such.
    pub async fn northbound_when(&self, what: &str, such: impl Fn(&Replica) -> bool) {
        let found = timeout(PATIENCE, self.northbound.when(such)).await;
        assert!(
            found.is_ok(),
            "{what} is not so:\n{}",
            self.nbctl(&["show"])
        );
    }

    /// The rows of a table, as they are now.
    pub fn rows<T: Table>(&self) -> Vec<T> {
        let replica = self.northbound.replica();
        replica
            .rows::<T>()
            .expect("is monitored")
            .into_values()
            .collect()
    }

    pub async fn network(&self) {
        self.create::<ProviderNetwork>(&json!({
            "metadata": {"name": "pve-default"},
            "spec": {
                "defaultInterface": "eth1",
                "nodeSelector": {"matchLabels": {"proxmox.cozystack.io/trunk": "true"}},
            },
        }))
        .await;
    }

    pub async fn vlan(&self, name: &str, id: u16) {
        self.create::<Vlan>(&json!({
            "metadata": {"name": name},
            "spec": {"id": id, "provider": "pve-default"},
        }))
        .await;
    }

    pub async fn vpc(&self, name: &str, spec: Value) {
        self.create::<Vpc>(&json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }

    pub async fn subnet(&self, name: &str, spec: Value) {
        self.create::<Subnet>(&json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }

    /// Provider network, Vlan 214, Vpc and the VLAN subnet `s` on them, all ready.
    pub async fn with_vlan_subnet() -> Self {
        let bench = Self::start().await;
        bench.network().await;
        bench.vlan("vlan-214", 214).await;
        bench.vpc("v", json!({})).await;
        bench
            .subnet("s", vlan_subnet("vlan-214", "172.20.10.0/24"))
            .await;
        bench.ready::<Subnet>("s").await;
        bench
    }

    pub async fn attachment(&self, name: &str) {
        self.attachment_within(NAMESPACE, name).await;
    }

    pub async fn attachment_within(&self, namespace: &str, name: &str) {
        use causeway_api::multus::NetworkAttachmentDefinition;
        let config = json!({"type": "kube-ovn", "provider": format!("{name}.{namespace}.ovn")});
        let object = json!({
            "metadata": {"name": name},
            "spec": {"config": config.to_string()},
        });
        let api = self.within::<NetworkAttachmentDefinition>(namespace);
        create(&api, &object).await;
    }

    pub async fn pod(&self, name: &str, node: &str, annotations: Value) {
        create(&self.namespaced::<Pod>(), &pod(name, node, &annotations)).await;
    }

    pub async fn running(&self, name: &str) -> Pod {
        when(self.namespaced(), name, is_running).await
    }
}

pub fn pod(name: &str, node: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]},
    })
}

pub fn is_running(pod: &Pod) -> bool {
    json!(pod).pointer("/status/phase") == Some(&json!("Running"))
}

/// Creates an object given without kind.
pub async fn create<K: Object>(api: &Api<K>, object: &Value) {
    let object: K = serde_json::from_value(object.clone()).expect("is of its kind");
    api.create(&PostParams::default(), &object)
        .await
        .expect("is created");
}

/// Waits until the object is such.
pub async fn when<K: Object>(api: Api<K>, name: &str, such: impl Fn(&K) -> bool) -> K {
    let condition = |object: Option<&K>| object.is_some_and(&such);
    let found = timeout(PATIENCE, await_condition(api.clone(), name, condition)).await;
    let Ok(found) = found else {
        let is = api.get_opt(name).await.expect("can be read");
        panic!("{} {name} does not become so: {is:#?}", K::kind(&()));
    };
    found.expect("can be watched").expect("is there")
}

/// Waits until the object is gone.
pub async fn gone<K: Object>(api: Api<K>, name: &str) {
    let found = timeout(
        PATIENCE,
        await_condition(api, name, |it: Option<&K>| it.is_none()),
    );
    found.await.expect("goes in time").expect("can be watched");
}

pub fn vlan_subnet(vlan: &str, cidr: &str) -> Value {
    json!({
        "vpc": "v", "vlan": vlan, "cidrBlock": cidr, "logicalGateway": true,
        "provider": "s.tenant-example.ovn", "enableLb": false,
    })
}

/// Status and reason of a Subnet's condition.
pub fn condition(subnet: &Subnet, kind: &str) -> (String, String) {
    let conditions = subnet
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let found = causeway_api::kubeovn::condition(conditions, kind)
        .cloned()
        .unwrap_or_default();
    (
        found.status.unwrap_or_default(),
        found.reason.unwrap_or_default(),
    )
}

fn is_ready(object: &Value) -> bool {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|it| it["type"] == "Ready" && it["status"] == "True")
        || object.pointer("/status/standby") == Some(&json!(true))
}

/// What a CNI was told, kept where a test can wait for it.
#[derive(Clone)]
pub struct Notebook {
    notes: Arc<watch::Sender<Notes>>,
    broken: Arc<Mutex<Option<String>>>,
}

#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// By node and provider network.
    pub trunks: BTreeMap<(String, String), Trunk>,
    /// By pod name.
    pub pods: BTreeMap<String, PodSandbox>,
}

impl Default for Notebook {
    fn default() -> Self {
        let notes = Arc::new(watch::channel(Notes::default()).0);
        Self {
            notes,
            broken: Arc::default(),
        }
    }
}

impl Notebook {
    /// Nothing can be carried on this node from now on, or again on every one.
    pub fn break_node(&self, node: Option<&str>) {
        *self.broken.lock().expect("no test panicked holding it") = node.map(Into::into);
    }

    /// The nodes begin anew: nothing is carried or plugged.
    pub fn forget(&self) {
        self.notes.send_replace(Notes::default());
    }

    pub fn now(&self) -> Notes {
        self.notes.borrow().clone()
    }

    pub async fn when(&self, what: &str, such: impl Fn(&Notes) -> bool) -> Notes {
        let mut notes = self.notes.subscribe();
        let found = timeout(PATIENCE, notes.wait_for(such)).await;
        let Ok(found) = found else {
            panic!("{what} is not so: {:#?}", self.now());
        };
        found.expect("the notebook is held").clone()
    }
}

impl Cni for Notebook {
    async fn carry_trunk(&self, node: &str, trunk: &Trunk) -> Result<TrunkReport, CniError> {
        if self
            .broken
            .lock()
            .expect("no test panicked holding it")
            .as_deref()
            == Some(node)
        {
            return Err(CniError {
                action: format!("carrying {}", trunk.provider_network),
                node: node.to_owned(),
                source: "the NIC is gone".into(),
            });
        }
        self.notes.send_modify(|notes| {
            let key = (node.to_owned(), trunk.provider_network.clone());
            notes.trunks.insert(key, trunk.clone());
        });
        Ok(TrunkReport { mtu: 1500 })
    }

    async fn drop_trunk(&self, node: &str, provider_network: &str) -> Result<(), CniError> {
        self.notes.send_modify(|notes| {
            notes
                .trunks
                .remove(&(node.to_owned(), provider_network.to_owned()));
        });
        Ok(())
    }

    async fn plug(&self, pod: &PodSandbox) -> Result<(), CniError> {
        self.notes.send_modify(|notes| {
            notes.pods.insert(pod.pod.name.clone(), pod.clone());
        });
        Ok(())
    }

    async fn is_plugged(&self, pod: &PodRef) -> Result<bool, CniError> {
        Ok(self.notes.borrow().pods.contains_key(&pod.name))
    }

    async fn unplug(&self, pod: &PodRef) -> Result<(), CniError> {
        self.notes.send_modify(|notes| {
            notes.pods.remove(&pod.name);
        });
        Ok(())
    }
}
