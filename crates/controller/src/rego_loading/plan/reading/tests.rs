use super::*;
use crate::rego_loading::kinds::documents;
use crate::rego_loading::tests::{Hub, NOW, object, settings};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_mirror::plurals::ResolvedPlural;
use policy_sync_mirror::{SourceEvent, WatchFailure, WatchFailureKind};
use policy_sync_rego::confined;
use policy_sync_rego::module::{ModuleId, Text};

fn bundle(kind: &str) -> Bundle {
    let text = format!("package admission\ndeny[\"no\"] {{ data.kubernetes[\"{kind}\"][_][_].bad }}");
    Bundle::read(&[Text { id: ModuleId::new("a"), text: text.into() }]).unwrap()
}

fn faults_of(hub: &Hub, kind: &str, settings: &Settings, too_large: &[(&str, usize)]) -> Vec<String> {
    let too_large = too_large.iter().map(|(kind, count)| (GroupResource::new("", kind), (*count, NOW)));
    let guard = hub.0.read();
    let faults =
        faults(guard.view(NOW), settings, &too_large.collect(), (&bundle(kind), &SecretReads::default()));
    faults.iter().map(ToString::to_string).collect()
}

fn advice_of(hub: &Hub, kind: &str, settings: &Settings) -> Vec<String> {
    let guard = hub.0.read();
    advice(guard.view(NOW), settings, &bundle(kind)).iter().map(ToString::to_string).collect()
}

#[test]
fn reading_a_forbidden_kind_is_a_fault_at_its_place() {
    let hub = Hub::new();
    assert_eq!(faults_of(&hub, "pods", &settings(), &[]), [""; 0]);
    let pods = documents(&GroupResource::new("", "pods"));
    let failing = |kind| {
        SourceEvent::FailureChanged(pods.clone(), Some(WatchFailure { text: "no (403)".to_owned(), kind }))
    };
    hub.0.change(failing(WatchFailureKind::Transient), NOW);
    assert_eq!(faults_of(&hub, "pods", &settings(), &[]), [""; 0], "it may pass");
    hub.0.change(failing(WatchFailureKind::Forbidden), NOW);
    assert_eq!(faults_of(&hub, "pods", &settings(), &[]), ["a:2:14: pods cannot be listed: no (403)"]);
    // After the first complete list, the objects are known, even if the hub rejects later lists.
    hub.documents("pods", &[]);
    hub.0.change(failing(WatchFailureKind::Forbidden), NOW);
    assert_eq!(faults_of(&hub, "pods", &settings(), &[]), [""; 0]);
}

#[test]
fn rules_at_paths_of_data_are_faults() {
    let faults_of = |hub: &Hub, package: &str| {
        let text = Text { id: ModuleId::new("a"), text: format!("package {package}\np := 1").into() };
        let (bundle, guard) = (Bundle::read(&[text]).unwrap(), hub.0.read());
        let faults =
            faults(guard.view(NOW), &settings(), &BTreeMap::new(), (&bundle, &SecretReads::default()));
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let hub = Hub::new();
    for package in ["kubernetes.services", "kubernetes.admission", "lib.policies"] {
        assert_eq!(faults_of(&hub, package), [""; 0]);
    }
    hub.serves("services", ResolvedPlural::Resource(GroupVersionResource::new("", "v1", "services")));
    hub.serves("admission", ResolvedPlural::NotServed);
    let expected = ["a:1:9: package kubernetes.services.x: objects of the hub have this path"];
    assert_eq!(faults_of(&hub, "kubernetes.services.x"), expected);
    assert_eq!(faults_of(&hub, "kubernetes.admission"), [""; 0]);
    assert_eq!(
        faults_of(&hub, "policies.lib"),
        ["a:1:9: package policies.lib: data of ConfigMaps has this path"]
    );
}

#[test]
fn secrets_are_readable_only_if_replicated_under_any_alias() {
    let hub = Hub::new();
    let secrets = ResolvedPlural::Resource(GroupVersionResource::new("", "v1", "secrets"));
    hub.serves("secrets", secrets.clone());
    hub.serves("passwords", secrets);
    for kind in ["secrets", "passwords"] {
        let expected = format!("a:2:14: {kind} are only available if --replicate lists them");
        assert_eq!(faults_of(&hub, kind, &settings(), &[]), [expected]);
        let replicate = Settings { replicate: ["secrets".to_owned()].into(), ..settings() };
        assert_eq!(faults_of(&hub, kind, &replicate, &[]), [""; 0]);
    }
}

#[test]
fn too_many_objects_are_a_fault_and_nearly_too_many_a_warning() {
    let hub = Hub::new();
    let expected =
        "a:2:14: pods have 1,200 objects, at most 100 are allowed for all kinds together (--replicate-limit)";
    assert_eq!(faults_of(&hub, "pods", &settings(), &[("pods", 1200)]), [expected]);
    assert_eq!(faults_of(&hub, "nodes", &settings(), &[("pods", 1200)]), [""; 0]);
    let pods =
        |count: usize| (0..count).map(|n| object("Pod", Some("shop"), &format!("p{n}"))).collect::<Vec<_>>();
    hub.documents("pods", &pods(80));
    hub.documents("nodes", &[object("Node", None, "n1")]);
    assert_eq!(advice_of(&hub, "pods", &settings()), [""; 0]);
    hub.documents("pods", &pods(81));
    let expected = "a:2:14: pods have 81 objects: all namespaced kinds together have 81 of at most 100 (--replicate-limit)";
    assert_eq!(advice_of(&hub, "pods", &settings()), [expected]);
    assert_eq!(advice_of(&hub, "nodes", &settings()), [""; 0], "they have a limit of their own");
}

#[test]
fn reads_of_contents_are_rejected_unless_secrets_are_replicated() {
    let of = |settings: &Settings, text: &str| {
        let texts = [Text { id: ModuleId::new("a"), text: text.into() }];
        let checked = confined::checked(&texts, Default::default(), &Default::default());
        assert!(checked.faults.is_empty(), "{:?}", checked.faults);
        let (bundle, hub) = (Bundle::read(&texts).unwrap(), Hub::new());
        let guard = hub.0.read();
        let faults = faults(guard.view(NOW), settings, &BTreeMap::new(), (&bundle, &checked.secrets));
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let tells = "package admission\nimport rego.v1\ndeny contains msg if {\n\tinput.request.kind.kind == \"Secret\"\n\
                 \tmsg := sprintf(\"%v\", [input.request.object.data])\n}\n";
    let expected = "a:5:27: reads the contents of a Secret: this needs --replicate secrets";
    assert_eq!(of(&settings(), tells), [expected]);
    let replicate = Settings { replicate: ["secrets".to_owned()].into(), ..settings() };
    assert_eq!(of(&replicate, tells), [""; 0]);
    assert_eq!(of(&settings(), &tells.replace("Secret", "ConfigMap")), [""; 0]);
    let any = tells.replace("\tinput.request.kind.kind == \"Secret\"\n", "");
    assert_eq!(of(&settings(), &any), [""; 0], "reviews of Secrets fail instead");
}
