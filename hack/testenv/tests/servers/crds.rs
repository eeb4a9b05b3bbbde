//! The CRDs of hubs and spokes become Established, and generated CRDs match the published CRDs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition;
use policy_sync_testenv::crds::{self, ClusterType, Crd};
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, binaries};
use serde_json::Value;

async fn all_are_established(name: &str, crds: Vec<Crd>) {
    let names: Vec<String> = crds.iter().map(|crd| crd.name().to_owned()).collect();
    let plane =
        ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named(name) }).await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(plane.client().unwrap());
    for name in names {
        let crd = api.get(&name).await.unwrap();
        assert!(is_crd_established().matches_object(Some(&crd)), "{name}");
    }
}

#[tokio::test]
async fn hub_crds_are_established() {
    let binaries = binaries::ensure().await.unwrap();
    all_are_established("hub-crds", crds::for_cluster_type(ClusterType::Hub, &binaries).unwrap()).await;
}

#[tokio::test]
async fn spoke_crds_are_established() {
    let binaries = binaries::ensure().await.unwrap();
    all_are_established("spoke-crds", crds::for_cluster_type(ClusterType::Spoke, &binaries).unwrap()).await;
}

/// Tests the generated CRDs, even if `POLICY_SYNC_CRDS` replaces them in other tests.
#[tokio::test]
async fn generated_crds_are_established() {
    let mut ours = crds::generated(ClusterType::Hub).unwrap();
    ours.extend(crds::generated(ClusterType::Spoke).unwrap());
    ours.dedup_by(|a, b| a.name() == b.name());
    all_are_established("our-crds", ours).await;
}

/// Keywords that affect how a server validates, defaults, merges and prunes a field.
const KEYWORDS: [&str; 9] = [
    "type",
    "format",
    "default",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
];

/// All generated fields have the type, default and list type of the published CRD. Fields that generated CRDs
/// require must be required by published CRDs too, so that generated CRDs accept every object that published CRDs
/// accept.
#[test]
fn generated_crds_match_published_ones() {
    let Some(folder) = crds::published_folder() else {
        eprintln!("NOT COMPARED: POLICY_SYNC_CRDS is not a folder with OCM's CRDs in ocm/");
        return;
    };
    let published = crds::read_published(&folder).unwrap();
    let ocm = |crd: &&Crd| crd.name().ends_with("open-cluster-management.io");
    let generated =
        [ClusterType::Hub, ClusterType::Spoke].into_iter().flat_map(|side| crds::generated(side).unwrap());
    let (mut compared, mut faults) = (0, Vec::new());
    for ours in generated.collect::<Vec<_>>().iter().filter(ocm) {
        let theirs = published.iter().find(|crd| crd.name() == ours.name());
        let theirs = theirs.unwrap_or_else(|| panic!("no {} in {}", ours.name(), folder.display()));
        assert_eq!(ours.value()["spec"]["names"]["kind"], theirs.value()["spec"]["names"]["kind"]);
        assert_eq!(ours.value()["spec"]["scope"], theirs.value()["spec"]["scope"], "{}", ours.name());
        for version in ours.value()["spec"]["versions"].as_array().unwrap() {
            let name = version["name"].as_str().unwrap();
            let schema = theirs.schema(name).unwrap_or_else(|| panic!("{} has no {name}", theirs.name()));
            compare(ours.name(), ours.schema(name).unwrap(), schema, &mut faults);
            compared += 1;
        }
    }
    assert_eq!(compared, 7, "the number of OCM's kinds in this environment");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn compare(path: &str, ours: &Value, theirs: &Value, faults: &mut Vec<String>) {
    for keyword in KEYWORDS {
        let (ours, theirs) = (&ours[keyword], &theirs[keyword]);
        let same = if keyword == "enum" { sorted(ours) == sorted(theirs) } else { ours == theirs };
        if !same {
            faults.push(format!("{path}: {keyword} is {ours}, published is {theirs}"));
        }
    }
    for required in ours["required"].as_array().into_iter().flatten() {
        if !theirs["required"].as_array().is_some_and(|all| all.contains(required)) {
            faults.push(format!("{path}: only ours requires {required}"));
        }
    }
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        // kube's derive adds `spec`, which PlacementDecision does not have.
        if path.starts_with("placementdecisions.") && name == "spec" {
            continue;
        }
        match theirs["properties"].get(name) {
            Some(theirs) => compare(&format!("{path}.{name}"), field, theirs, faults),
            None => faults.push(format!("{path}.{name} is not published")),
        }
    }
    for inner in ["items", "additionalProperties"] {
        match (&ours[inner], &theirs[inner]) {
            (Value::Object(_), Value::Object(_)) => {
                compare(&format!("{path}[]"), &ours[inner], &theirs[inner], faults);
            }
            (ours, theirs) if ours == theirs => {}
            (ours, theirs) => faults.push(format!("{path}: {inner} is {ours}, published is {theirs}")),
        }
    }
}

fn sorted(values: &Value) -> Vec<String> {
    let mut values: Vec<String> = values.as_array().into_iter().flatten().map(Value::to_string).collect();
    values.sort();
    values
}
