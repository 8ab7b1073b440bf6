use kube::api::ObjectMeta;

use super::*;

/// The least that is a Kubernetes object.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Thing {
    metadata: ObjectMeta,
}

impl Resource for Thing {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Thing".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "test".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "things".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn thing(name: &str, uid: &str, version: u64) -> Thing {
    Thing {
        metadata: ObjectMeta {
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
    }
}

fn empty() -> Objects<Thing> {
    Objects::new(Box::new(|_| ()))
}

fn versions(objects: &Objects<Thing>) -> Vec<u64> {
    objects.by_name.values().map(|o| version(&**o)).collect()
}

#[test]
fn a_late_event_does_not_undo_a_write_of_ours() {
    let mut objects = empty();
    assert!(objects.take(thing("a", "1", 7)));
    objects.event(watcher::Event::Apply(thing("a", "1", 5)));
    assert_eq!(versions(&objects), [7]);
}

#[test]
fn a_list_made_before_our_create_does_not_drop_it() {
    let mut objects = empty();
    objects.take(thing("a", "1", 7));
    objects.unconfirmed.insert((String::new(), "a".into()));
    objects.event(watcher::Event::Init);
    objects.event(watcher::Event::InitDone);
    assert_eq!(versions(&objects), [7]);
    objects.event(watcher::Event::Apply(thing("a", "1", 7)));
    objects.event(watcher::Event::Init);
    objects.event(watcher::Event::InitDone);
    assert!(versions(&objects).is_empty());
}

#[test]
fn a_deleted_object_does_not_come_back_by_a_late_event_but_its_successor_does() {
    let mut objects = empty();
    objects.take(thing("a", "1", 7));
    objects.drop_object(&(String::new(), "a".into()));
    objects.ended.insert("1".into());
    objects.event(watcher::Event::Apply(thing("a", "1", 8)));
    assert!(versions(&objects).is_empty());
    objects.event(watcher::Event::Apply(thing("a", "2", 9)));
    assert_eq!(versions(&objects), [9]);
}

#[test]
fn an_answer_that_comes_after_the_objects_end_does_not_bring_it_back() {
    let mut objects = empty();
    objects.event(watcher::Event::Apply(thing("a", "1", 5)));
    objects.event(watcher::Event::Delete(thing("a", "1", 7)));
    objects.fold(thing("a", "1", 6));
    assert!(versions(&objects).is_empty());
    objects.fold(thing("a", "2", 8));
    assert_eq!(versions(&objects), [8]);
}

#[test]
fn a_delete_event_of_the_predecessor_leaves_the_successor() {
    let mut objects = empty();
    objects.take(thing("a", "2", 9));
    objects.event(watcher::Event::Delete(thing("a", "1", 8)));
    assert_eq!(versions(&objects), [9]);
}

#[test]
fn every_change_is_announced_once_in_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let mut objects = Objects::new(Box::new(move |change: Change<Thing>| {
        let line = match change {
            Change::Is(thing) => format!("is {}", version(thing)),
            Change::Gone(thing) => format!("gone {}", version(thing)),
        };
        lock_log(&log).push(line);
    }));
    objects.event(watcher::Event::Apply(thing("a", "1", 5)));
    objects.event(watcher::Event::Apply(thing("a", "1", 5)));
    objects.event(watcher::Event::Apply(thing("a", "1", 6)));
    objects.event(watcher::Event::Delete(thing("a", "1", 7)));
    assert_eq!(*lock_log(&seen), ["is 5", "is 6", "gone 6"]);
}

fn lock_log(log: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    log.lock().expect("no test panics while it writes")
}
