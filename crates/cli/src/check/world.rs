//! The files given, taken as one world: which objects they hold, and what is to say of each.
//!
//! Called by `causeway check` and `causeway plan`. What is right and wrong is decided in `causeway_planner::admit`; here
//! it is only found in the files.
//! Must stay true: every error of every file is said in one run, and none twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::LazyLock,
};

use causeway_api::{
    ProxmoxNetworkZone, VirtualPrivateCloud,
    observed::{vpc_input, zone_input},
};
use causeway_planner::{
    admit::{
        FieldPath, Remark, Subject, Verdict, Violation, WITHOUT_EFFECT, Weight, Write, decide,
        review,
    },
    model::{VpcKey, ZoneName},
    snapshot::{Meta, Moment, NamespaceState, Seen, Snapshot, Version},
};
use serde_json::{Value, json};

use super::{
    shape::{self, Shaped, similar},
    yaml::{self, Node},
};

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct File {
    /// How the user named it; `<stdin>` for the standard input.
    pub name: String,
    /// What it holds.
    pub text: String,
}

impl File {
    /// Number of the line that holds this byte, from 1.
    pub fn line(&self, byte: usize) -> usize {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        before.matches('\n').count() + 1
    }

    fn line_of(&self, byte: usize) -> String {
        format!("{}:{}", self.name, self.line(byte))
    }
}

/// Something to say about a place in a file.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Number of the file.
    pub file: usize,
    /// Bytes of it.
    pub span: Range<usize>,
    /// How much it weighs.
    pub weight: Weight,
    /// What is wrong, why, and what would be accepted.
    pub message: String,
    /// Path of the field, where one is meant.
    pub field: String,
    /// Kind and name of the object, where it is known.
    pub object: String,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of files and lines.
    pub findings: Vec<Finding>,
    /// Objects that were checked.
    pub objects: usize,
}

impl Report {
    /// How many findings weigh so much.
    pub fn count(&self, weight: Weight) -> usize {
        let same = |finding: &&Finding| finding.weight == weight;
        self.findings.iter().filter(same).count()
    }
}

const VPC: &str = "VirtualPrivateCloud";
const ZONE: &str = "ProxmoxNetworkZone";
const NETWORK: &str = "ProxmoxNetwork";
const NAMESPACE: &str = "Namespace";

/// apiVersion and schema of the kinds that are checked.
static KINDS: LazyLock<BTreeMap<&str, (String, Value)>> = LazyLock::new(|| {
    let crds = causeway_api::crds()
        .into_iter()
        .chain(causeway_api::apps_crds());
    let kinds = crds.filter_map(|crd| {
        let kind = [VPC, ZONE]
            .into_iter()
            .find(|kind| *kind == crd.spec.names.kind)?;
        let version = crd.spec.versions.first()?;
        let api = format!("{}/{}", crd.spec.group, version.name);
        let value = serde_json::to_value(&crd).ok()?;
        Some((kind, (api, shape::schema(&value))))
    });
    kinds.collect()
});

/// Checks all files as one world. `strict`: what cannot be checked is an error.
pub fn check(files: &[File], strict: bool) -> Report {
    judge(files, strict, None).report
}

/// The files, judged.
pub struct Judged {
    /// What is to say.
    pub report: Report,
    /// What there is with what is accepted of the files put in place.
    pub world: Snapshot,
    /// Zones and VPCs of the files that are accepted.
    pub accepted: BTreeSet<Subject>,
}

/// The same as [`check`], on a cluster where one is given: then each object is judged as the
/// admission webhook would, as a change of what is there.
pub fn judge(files: &[File], strict: bool, live: Option<Snapshot>) -> Judged {
    let mut world = World::new(files, live);
    for (index, file) in files.iter().enumerate() {
        for (offset, text) in yaml::documents(&file.text) {
            world.document(index, offset, text);
        }
    }
    world.judge(strict);
    world.take_refused_back();
    let mut report = world.report;
    report
        .findings
        .sort_by_key(|finding| (finding.file, finding.span.start, finding.weight));
    Judged {
        report,
        world: world.snapshot,
        accepted: world.places.into_keys().collect(),
    }
}

/// Where an object stands.
struct Place {
    file: usize,
    root: Node,
    name: String,
    broken: Vec<FieldPath>,
    /// File and line.
    at: String,
}

struct World<'a> {
    files: &'a [File],
    /// The cluster without the files.
    live: Option<Snapshot>,
    snapshot: Snapshot,
    refused: BTreeSet<Subject>,
    places: BTreeMap<Subject, Place>,
    report: Report,
}

impl<'a> World<'a> {
    fn new(files: &'a [File], live: Option<Snapshot>) -> Self {
        Self {
            files,
            snapshot: live.clone().unwrap_or_default(),
            live,
            refused: BTreeSet::new(),
            places: BTreeMap::new(),
            report: Report::default(),
        }
    }

    fn say(&mut self, weight: Weight, file: usize, span: Range<usize>, message: String) {
        self.report.findings.push(Finding {
            file,
            span,
            weight,
            message,
            field: String::new(),
            object: String::new(),
        });
    }

    fn document(&mut self, file: usize, offset: usize, text: &str) {
        let (root, problems) = yaml::parse(offset, text);
        for problem in problems {
            self.say(Weight::Error, file, problem.span, problem.message);
        }
        let Some(root) = root else {
            return;
        };
        let Some(kind) = root.get("kind").and_then(Node::text) else {
            let message = "this is no Kubernetes object: it has no kind".to_owned();
            return self.say(Weight::Error, file, root.span.clone(), message);
        };
        let kind_span = root.locate(&FieldPath::default().field("kind"));
        match kind {
            NAMESPACE => self.namespace(&root),
            NETWORK => {
                let message =
                    format!("not checked: kind {NETWORK}, which the controller alone writes");
                self.say(Weight::Unchecked, file, kind_span, message);
            }
            _ => {
                if let Some((kind, (api, schema))) = KINDS.get_key_value(kind) {
                    return self.object(file, root, kind, api, schema);
                }
                let hint = similar(kind, [VPC, ZONE]);
                let hint = hint.map_or_else(String::new, |k| format!("; did you mean {k}?"));
                let message = format!("not checked: kind {kind}{hint}");
                self.say(Weight::Unchecked, file, kind_span, message);
            }
        }
    }

    /// Labels decide which zones admit a namespace; the rest of it is not ours.
    fn namespace(&mut self, root: &Node) {
        let metadata = root.get("metadata").map(Node::json).unwrap_or_default();
        let Some(name) = metadata.get("name").and_then(Value::as_str) else {
            return;
        };
        let labels = metadata.get("labels").and_then(Value::as_object);
        let labels = labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let namespaces = &mut self.snapshot.namespaces;
        let state: &mut NamespaceState = namespaces.entry(name.into()).or_default();
        state.labels.extend(labels);
        self.report.objects += 1;
    }

    fn object(&mut self, file: usize, root: Node, kind: &'static str, api: &str, schema: &Value) {
        self.report.objects += 1;
        let version = root
            .get("apiVersion")
            .and_then(Node::text)
            .unwrap_or_default();
        if version != api {
            let span = root.locate(&FieldPath::default().field("apiVersion"));
            let message = format!("{kind} is of apiVersion {api}, not {version:?}");
            return self.say(Weight::Error, file, span, message);
        }
        let shaped = shape::shape(&root, schema);
        let metadata = |field: &str| {
            let value = shaped.value.pointer(&format!("/metadata/{field}"));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, name) = (metadata("namespace"), metadata("name"));
        let full = match kind {
            VPC => format!("{namespace}/{name}"),
            _ => name.clone(),
        };
        let label = format!("{kind} {full}");
        for (span, violation) in &shaped.errors {
            self.remark(Weight::Error, file, span.clone(), violation, &label);
        }
        for (span, violation) in &shaped.warnings {
            self.remark(Weight::Warning, file, span.clone(), violation, &label);
        }
        self.idle_fields(file, &root, &shaped, kind, &label);
        let span = root.locate(&FieldPath::default().field("metadata").field("name"));
        let subject = match kind {
            VPC => Subject::Vpc(VpcKey::new(&namespace, &name)),
            _ => Subject::Zone(ZoneName::from(name)),
        };
        if let Some(earlier) = self.places.get(&subject) {
            let message = format!("{label} is given twice, first in {}; keep one", earlier.at);
            return self.say(Weight::Error, file, span, message);
        }
        if !shaped.errors.is_empty() {
            self.refused.insert(subject.clone());
        }
        if let Err(refusal) = self.enter(&subject, &shaped) {
            let message = format!("{label} cannot be read: {refusal}");
            return self.say(Weight::Error, file, span, message);
        }
        let at = self
            .files
            .get(file)
            .map(|file| file.line_of(root.span.start));
        let place = Place {
            file,
            root,
            name: label,
            broken: shaped.broken,
            at: at.unwrap_or_default(),
        };
        self.places.insert(subject, place);
    }

    fn remark(
        &mut self,
        weight: Weight,
        file: usize,
        span: Range<usize>,
        violation: &Violation,
        object: &str,
    ) {
        self.report.findings.push(Finding {
            file,
            span,
            weight,
            message: violation.message.clone(),
            field: violation.path.to_string(),
            object: object.to_owned(),
        });
    }

    fn idle_fields(&mut self, file: usize, root: &Node, shaped: &Shaped, kind: &str, label: &str) {
        for idle in WITHOUT_EFFECT.iter().filter(|idle| idle.kind == kind) {
            let path = idle
                .path
                .iter()
                .fold(FieldPath::default(), |path, name| path.field(name));
            let node = idle.path.iter().try_fold(root, |node, name| node.get(name));
            let Some(value) = node.map(Node::json) else {
                continue;
            };
            let text = match &value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let absent = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            let broken = shaped
                .broken
                .iter()
                .any(|broken| path.0.starts_with(&broken.0));
            if absent || broken || idle.idle.contains(&text.as_str()) {
                continue;
            }
            let message = format!("{path} has no effect in this release: {}", idle.missing);
            let violation = Violation {
                path: path.clone(),
                message,
            };
            self.remark(Weight::Warning, file, root.locate(&path), &violation, label);
        }
    }

    /// Puts an object into the snapshot. The order of the files stands for the order of creation.
    fn enter(&mut self, subject: &Subject, shaped: &Shaped) -> Result<(), serde_json::Error> {
        let field = |name: &str| shaped.value.pointer(&format!("/metadata/{name}"));
        let object = json!({
            "apiVersion": shaped.value.get("apiVersion"),
            "kind": shaped.value.get("kind"),
            "metadata": {"name": field("name"), "annotations": field("annotations")},
            "spec": shaped.value.get("spec"),
        });
        let meta = meta(self.report.objects, self.snapshot.now);
        match subject {
            Subject::Vpc(key) => {
                let vpc: VirtualPrivateCloud = serde_json::from_value(object)?;
                put(&mut self.snapshot.vpcs, key, vpc_input(&vpc.spec), meta);
            }
            Subject::Zone(name) => {
                let zone: ProxmoxNetworkZone = serde_json::from_value(object)?;
                put(&mut self.snapshot.zones, name, zone_input(&zone), meta);
            }
        }
        Ok(())
    }

    /// What the admission webhook would say of each object of the files.
    fn verdicts(&self, live: &Snapshot) -> Vec<Remark> {
        let mut remarks = Vec::new();
        for subject in self.places.keys() {
            let write = match subject {
                Subject::Vpc(key) => Write::Vpc {
                    key,
                    old: live.vpcs.get(key),
                    new: self.snapshot.vpcs.get(key),
                },
                Subject::Zone(name) => Write::Zone {
                    name,
                    old: live.zones.get(name),
                    new: self.snapshot.zones.get(name),
                },
            };
            let (weight, said) = match decide(write, &self.snapshot) {
                Verdict::Allow { warnings } => (Weight::Warning, warnings),
                Verdict::Deny(broken) => (Weight::Error, broken),
                Verdict::Need(unknown) => {
                    let path = FieldPath::default();
                    let message = format!("cannot be judged without {unknown:?}");
                    (Weight::Error, vec![Violation { path, message }])
                }
            };
            remarks.extend(said.into_iter().map(|violation| Remark {
                subject: subject.clone(),
                weight,
                violation,
            }));
        }
        remarks
    }

    /// What is refused is not there; what was there before is as it was.
    fn take_refused_back(&mut self) {
        let (world, live) = (&mut self.snapshot, self.live.as_ref());
        for subject in &self.refused {
            self.places.remove(subject);
            match subject {
                Subject::Vpc(key) => {
                    put_back(&mut world.vpcs, key, live.map(|live| &live.vpcs));
                }
                Subject::Zone(name) => {
                    put_back(&mut world.zones, name, live.map(|live| &live.zones));
                }
            }
        }
    }

    fn judge(&mut self, strict: bool) {
        let remarks = match &self.live {
            Some(live) => self.verdicts(live),
            None => review(&self.snapshot),
        };
        for remark in remarks {
            let Some(place) = self.places.get(&remark.subject) else {
                continue;
            };
            let path = &remark.violation.path;
            if place
                .broken
                .iter()
                .any(|broken| path.0.starts_with(&broken.0))
            {
                continue;
            }
            let weight = match remark.weight {
                Weight::Unchecked if strict => Weight::Error,
                weight => weight,
            };
            if weight == Weight::Error {
                self.refused.insert(remark.subject.clone());
            }
            let message = match remark.weight {
                Weight::Unchecked => {
                    format!("not checked: needs a zone ({})", remark.violation.message)
                }
                _ => remark.violation.message.clone(),
            };
            let violation = Violation {
                path: path.clone(),
                message,
            };
            let (file, span, name) = (place.file, place.root.locate(path), place.name.clone());
            self.remark(weight, file, span, &violation, &name);
        }
    }
}

/// Puts a spec in place, of an object that is there or of a new one.
fn put<Name: Ord + Clone, T: PartialEq, S>(
    objects: &mut BTreeMap<Name, Seen<T, S>>,
    name: &Name,
    spec: T,
    new: Meta,
) {
    let (meta, status) = match objects.remove(name) {
        None => (new, None),
        Some(mut old) => {
            old.meta.generation += i64::from(old.spec != spec);
            (old.meta, old.status)
        }
    };
    objects.insert(name.clone(), Seen { meta, spec, status });
}

/// Makes an object what it was.
fn put_back<Name: Ord + Clone, T: Clone>(
    objects: &mut BTreeMap<Name, T>,
    name: &Name,
    before: Option<&BTreeMap<Name, T>>,
) {
    objects.remove(name);
    let old = before.and_then(|before| before.get(name));
    objects.extend(old.map(|old| (name.clone(), old.clone())));
}

/// Metadata of the object with this number: objects are created in the order of the files, after
/// what there is.
fn meta(number: usize, now: Moment) -> Meta {
    Meta {
        version: Version {
            uid: format!("{number:08}").into(),
            resource_version: String::new(),
        },
        generation: 1,
        created: Moment(
            now.0
                .saturating_add(i64::try_from(number).unwrap_or(i64::MAX)),
        ),
        deleting: false,
        held: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}
