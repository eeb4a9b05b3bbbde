use super::*;

fn cluster(name: &str) -> Object {
    Object { kind: GroupResource::new(cluster::GROUP, "managedclusters"), key: ObjectKey::new("", name) }
}

fn app(name: &str) -> Object {
    Object { kind: GroupResource::new("apps", "deployments"), key: ObjectKey::new("shop", name) }
}

fn by(documents: &[&Object]) -> ChangeCause {
    ChangeCause::Documents(
        documents.iter().map(|document| (document.kind.clone(), document.key.clone())).collect(),
    )
}

fn at(seconds: u64) -> Moment {
    Moment(0).after(Duration::from_secs(seconds))
}

fn content(number: u8) -> ContentHash {
    ContentHash::of(&[number])
}

/// Changes `documents`, which moves `object`, and returns the documents that are flapping from then on.
fn flip(causes: &mut Causes, object: &Object, documents: &[&Object], now: Moment) -> Vec<Object> {
    causes.changed(&by(documents));
    let found = causes.of(object, content(0));
    assert!(found.keys().eq(documents.iter().copied()), "{found:?}");
    let flapping = causes.moved(&found, now);
    causes.record_compliant(object, content(0), causes.latest());
    flapping
}

#[test]
fn document_counts_as_cause_only_if_an_unchanged_object_no_longer_complies() {
    let (mut causes, eu, app) = (Causes::default(), cluster("eu"), app("app"));
    causes.changed(&by(&[&eu]));
    assert!(causes.of(&app, content(0)).is_empty(), "nothing is known of it");
    causes.record_compliant(&app, content(0), causes.latest());
    assert!(causes.of(&app, content(0)).is_empty(), "no document has changed");
    causes.changed(&by(&[&eu]));
    assert_eq!(causes.of(&app, content(0)), [(eu.clone(), 2)].into());
    assert!(causes.of(&app, content(1)).is_empty(), "the object has changed");
    causes.changed(&ChangeCause::Other);
    assert!(causes.of(&app, content(0)).is_empty(), "policies have changed");
    causes.record_compliant(&app, content(0), causes.latest());
    causes.changed(&by(&[&eu]));
    causes.forget(&app);
    assert!(causes.of(&app, content(0)).is_empty() && causes.last_compliant.is_empty());
}

#[test]
fn document_is_flapping_after_three_changes_that_moved_objects() {
    let (mut causes, bad, good, app) = (Causes::default(), cluster("bad"), cluster("good"), app("app"));
    causes.record_compliant(&app, content(0), causes.latest());
    for second in 0..2 {
        assert!(flip(&mut causes, &app, &[&bad], at(second)).is_empty());
    }
    // One change of a document moves many objects.
    let moved = [(bad.clone(), causes.latest())].into();
    assert!(causes.moved(&moved, at(2)).is_empty(), "it counts twice");
    assert!(flip(&mut causes, &app, &[&good], at(2)).is_empty());
    assert_eq!(flip(&mut causes, &app, &[&bad, &good], at(3)), std::slice::from_ref(&bad));
    assert_eq!(causes.flapping(at(4)), [(bad.clone(), at(600))].into());
    assert!(causes.flapping(at(600)).is_empty(), "it has settled");
    assert_eq!(flip(&mut causes, &app, &[&good], at(5)), [good], "three of its own");
}

#[test]
fn changes_that_move_no_objects_do_not_count_as_flapping() {
    let (mut causes, noisy, app) = (Causes::default(), cluster("noisy"), app("app"));
    for _ in 0..100 {
        causes.changed(&by(&[&noisy]));
        causes.record_compliant(&app, content(0), causes.latest());
    }
    assert!(causes.flapping(at(0)).is_empty() && causes.moves.is_empty());
}

#[test]
fn memory_is_bounded_and_untracked_changes_have_no_cause() {
    let (mut causes, app) = (Causes::default(), app("app"));
    causes.record_compliant(&app, content(0), causes.latest());
    let many: Vec<Object> = (0..=MAX_SIMULTANEOUS).map(|number| cluster(&number.to_string())).collect();
    causes.changed(&by(&many.iter().collect::<Vec<_>>()));
    assert!(causes.of(&app, content(0)).is_empty(), "too many at once");
    for number in 0..MAX_DOCUMENTS + 100 {
        let document = cluster(&format!("c{number}"));
        causes.record_compliant(&app, content(0), causes.latest());
        flip(&mut causes, &app, &[&document], at(0));
    }
    assert!(causes.changes.len() <= MAX_CHANGES && causes.moves.len() <= MAX_DOCUMENTS);
    // The object was evaluated before the first remembered change.
    causes.record_compliant(&app, content(0), 1);
    assert!(causes.of(&app, content(0)).is_empty());
    causes.retain(|_| false);
    assert!(causes.last_compliant.is_empty());
}

#[test]
fn objects_move_away_from_a_flapping_cluster_but_not_toward_it() {
    let to = |place: &str| Change {
        annotations: [("at".to_owned(), Some(place.to_owned()))].into(),
        ..Change::default()
    };
    let namespace = || Object { kind: GroupResource::namespaces(), key: ObjectKey::new("", "shop") };
    let bad = || [cluster("bad")];
    let differs = |place: &str| Compliance::Differs(to(place));
    assert_eq!(step(to("good"), differs("good"), bad()), Step::Change(to("good")), "away");
    assert_eq!(step(to("bad"), Compliance::Compliant, bad()), Step::Hold, "toward");
    assert_eq!(step(to("bad"), differs("good"), bad()), Step::Change(to("good")), "on other account");
    assert_eq!(step(to("bad"), Compliance::Violates("no".to_owned()), bad()), Step::Hold);
    assert_eq!(step(to("a"), differs("a"), [namespace()]), Step::Change(to("a")));
    let documents = [cluster("bad"), namespace()];
    assert_eq!(step(to("a"), differs("b"), documents), Step::Hold, "a Namespace is not taken away");
}

#[test]
fn documents_of_a_kind_in_one_namespace_count_as_one() {
    let (mut causes, app) = (Causes::default(), app("app"));
    causes.record_compliant(&app, content(0), causes.latest());
    let kind = GroupResource::new("", "pods");
    let mut flapping = Vec::new();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        causes.changed(&ChangeCause::Documents([(kind.clone(), ObjectKey::new("hostile", name))].into()));
        let found = causes.of(&app, content(0));
        flapping = causes.moved(&found, at(number as u64));
        causes.record_compliant(&app, content(0), causes.latest());
    }
    assert_eq!(flapping, [Object { kind, key: ObjectKey::new("", "hostile") }]);
}
