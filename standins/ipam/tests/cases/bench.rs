//! What every case starts from: a namespace of its own in a world with the provider.

use std::{fmt::Debug, time::Duration};

use causeway_api::{
    foreign_crds,
    ipam::{IPAddress, IPAddressClaim, InClusterIPPool, PoolCounts},
};
use causeway_drive::Watched;
use causeway_ipam::{Cluster, Ipam, WEBHOOK_URL, webhook, webhook_configuration};
use causeway_kubeapi::{Clock, GarbageCollector, KubeApi};
use k8s_openapi::{
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt, Error, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::Status,
    runtime::wait::await_condition,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Longest wait for what takes milliseconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Of the webhook, before its words.
pub const DENIED: &str =
    "admission webhook \"validation.inclusterippool.ipam.cluster.x-k8s.io\" denied the request: ";

/// Where a case works.
pub struct Bench {
    pub client: Client,
    pub namespace: String,
    pub pools: Api<InClusterIPPool>,
    pub claims: Api<IPAddressClaim>,
    pub addresses: Api<IPAddress>,
    pub clusters: Api<Cluster>,
    /// Nothing when the cases run against the real provider.
    _stand_in: Option<StandIn>,
}

struct StandIn {
    _api: KubeApi,
    _ipam: Ipam,
    _collector: GarbageCollector,
}

impl Bench {
    pub async fn new() -> Self {
        let (client, stand_in) = match std::env::var("CAUSEWAY_KUBEAPI_URL") {
            Ok(url) => {
                let config = kube::Config::new(url.parse().expect("a URL"));
                (Client::try_from(config).expect("a client"), None)
            }
            Err(_) => stand_in().await,
        };
        let namespace = namespace(&client).await;
        Self {
            pools: Api::namespaced(client.clone(), &namespace),
            claims: Api::namespaced(client.clone(), &namespace),
            addresses: Api::namespaced(client.clone(), &namespace),
            clusters: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
            _stand_in: stand_in,
        }
    }

    /// The same world in another namespace.
    pub async fn elsewhere(&self) -> (Api<InClusterIPPool>, Api<IPAddressClaim>, Api<IPAddress>) {
        let namespace = namespace(&self.client).await;
        (
            Api::namespaced(self.client.clone(), &namespace),
            Api::namespaced(self.client.clone(), &namespace),
            Api::namespaced(self.client.clone(), &namespace),
        )
    }

    pub async fn pool(&self, name: &str, spec: Value) -> InClusterIPPool {
        self.try_pool(name, spec).await.expect("the pool")
    }

    pub async fn try_pool(&self, name: &str, spec: Value) -> Result<InClusterIPPool, Error> {
        let pool = object(json!({"metadata": {"name": name}, "spec": spec}));
        self.pools.create(&PostParams::default(), &pool).await
    }

    pub async fn change_pool(&self, name: &str, patch: Value) -> Result<InClusterIPPool, Error> {
        change(&self.pools, name, patch).await
    }

    /// A claim on a pool of the case.
    pub async fn claim(&self, name: &str, pool: &str) -> IPAddressClaim {
        self.claim_with(name, pool, json!({})).await
    }

    /// A claim on a pool, changed by `rest`.
    pub async fn claim_with(&self, name: &str, pool: &str, rest: Value) -> IPAddressClaim {
        make(&self.claims, claim(name, pool, rest)).await
    }

    /// A claim that has been given this address.
    pub async fn claimed(&self, name: &str, pool: &str, address: &str) {
        self.claim(name, pool).await;
        self.gets(name, address).await;
    }

    /// The claim gets this address.
    pub async fn gets(&self, name: &str, address: &str) -> IPAddress {
        when(&self.claims, name, has_address).await;
        let given = self.addresses.get(name).await.expect("the address");
        assert_eq!(given.spec.address, address, "{name}");
        given
    }

    /// Once this returns, whatever the provider did with claims made before has been done.
    pub async fn until_later_claims_are_served(&self) {
        let spec = json!({"addresses": ["203.0.113.1"], "prefix": 24});
        self.pool("later", spec).await;
        self.claimed("later", "later", "203.0.113.1").await;
    }

    /// The pool's counts become so: total, used, free, out of range.
    pub async fn counts(&self, name: &str, counts: [i64; 4]) {
        let [total, used, free, out_of_range] = counts;
        let wanted = PoolCounts {
            total,
            free,
            used,
            out_of_range,
        };
        when(&self.pools, name, |pool: &InClusterIPPool| {
            counts_of(pool) == Some(wanted)
        })
        .await;
    }

    /// The claim is held, and has no status at all.
    pub async fn waits(&self, name: &str) {
        when(&self.claims, name, |claim: &IPAddressClaim| {
            !claim.finalizers().is_empty()
        })
        .await;
        self.until_later_claims_are_served().await;
        let claim = self.claims.get(name).await.expect("the claim");
        assert_eq!(claim.status, None, "{name}");
        let address = self.addresses.get_opt(name).await;
        assert_eq!(address.expect("an answer"), None, "{name}");
    }

    /// Nobody has touched the claim.
    pub async fn is_left_alone(&self, name: &str) {
        self.until_later_claims_are_served().await;
        let claim = self.claims.get(name).await.expect("the claim");
        assert_eq!((claim.finalizers(), &claim.status), (&[][..], &None));
    }
}

/// The refusal's code and words.
pub fn refused<T: Debug>(result: Result<T, Error>) -> Status {
    match result {
        Err(Error::Api(status)) => *status,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// It was refused as a bad request with these words of the webhook.
pub fn assert_bad<T: Debug>(result: Result<T, Error>, words: &str) {
    let status = refused(result);
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    assert_eq!(status.message, format!("{DENIED}{words}"));
}

pub fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

pub fn claim(name: &str, pool: &str, rest: Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": name},
        "spec": {"poolRef": {
            "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": pool,
        }},
    });
    json_patch::merge(&mut claim, &rest);
    claim
}

pub async fn make<K: Watched + Serialize>(api: &Api<K>, value: Value) -> K {
    api.create(&PostParams::default(), &object(value))
        .await
        .expect("is created")
}

pub async fn change<K: Watched>(api: &Api<K>, name: &str, patch: Value) -> Result<K, Error> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
}

pub async fn delete<K: Watched>(api: &Api<K>, name: &str) {
    let deleted = api.delete(name, &DeleteParams::default()).await;
    deleted.expect("is deleted");
}

pub async fn when<K: Watched>(api: &Api<K>, name: &str, such: impl Fn(&K) -> bool) -> K {
    let such = |object: Option<&K>| object.is_some_and(&such);
    let Ok(found) = timeout(PATIENCE, await_condition(api.clone(), name, such)).await else {
        panic!("{name} does not become so: {:#?}", api.get_opt(name).await);
    };
    found.expect("can be watched").expect("is there")
}

pub async fn gone<K: Watched>(api: &Api<K>, name: &str) {
    let gone = |object: Option<&K>| object.is_none();
    let Ok(found) = timeout(PATIENCE, await_condition(api.clone(), name, gone)).await else {
        panic!("{name} does not go: {:#?}", api.get_opt(name).await);
    };
    found.expect("can be watched");
}

pub fn counts_of(pool: &InClusterIPPool) -> Option<PoolCounts> {
    pool.status.as_ref()?.ip_addresses
}

pub fn has_address(claim: &IPAddressClaim) -> bool {
    let given = claim.status.as_ref().and_then(|it| it.address_ref.as_ref());
    given.is_some_and(|given| given.name == claim.name_any())
}

async fn namespace(client: &Client) -> String {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = object(json!({"metadata": {"generateName": "ipam-"}}));
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.expect("the namespace").name_any()
}

async fn stand_in() -> (Client, Option<StandIn>) {
    let api = KubeApi::new(Clock::machine()).expect("the API starts");
    let client = api.client("admin");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in foreign_crds().into_iter().chain([Cluster::crd()]) {
        let made = definitions
            .create(&PostParams::default(), &definition)
            .await;
        made.expect("the definition");
    }
    api.webhook(WEBHOOK_URL, webhook(api.client("ipam")));
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let made = hooks
        .create(&PostParams::default(), &webhook_configuration())
        .await;
    made.expect("the webhook");
    let stand_in = StandIn {
        _ipam: Ipam::start(api.client("ipam")),
        _collector: api.collect_in_background(),
        _api: api,
    };
    (client, Some(stand_in))
}
