//! `docs/annotations.md` lists exactly the labels and annotations that are part of the API, in the right
//! sections.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use policy_sync_api::annotations::{ALL, KeyLocation, MetadataKind};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The labels and annotations in the tables under a heading, without labels and annotations whose names depend on the
/// object.
fn documented(page: &str, heading: &str) -> BTreeSet<(MetadataKind, String)> {
    let (_, rest) = page
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("the heading {heading} is missing"));
    let section = rest.split("\n## ").next().unwrap();
    let mut found = BTreeSet::new();
    for cell in section.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split(" | ")) {
        let cell = cell.trim_start_matches(['|', ' ']);
        for (word, metadata) in [
            ("label `", MetadataKind::Label),
            ("labels `", MetadataKind::Label),
            ("annotation `", MetadataKind::Annotation),
        ] {
            let Some(key) = cell.strip_prefix(word) else { continue };
            let key = key.split(['`', ':', '<']).next().unwrap();
            assert!(found.insert((metadata, key.to_owned())), "{heading} has {key} twice");
        }
    }
    found
}

#[test]
fn every_label_and_annotation_is_documented() {
    let page = read("docs/annotations.md");
    for (location, _, _) in ALL {
        let heading = match location {
            KeyLocation::UserObjects => "By users, on the hub",
            KeyLocation::HubPolicies => "By the controller, on hub policies",
            KeyLocation::HubGateways => "By the controller, on hub Gateways",
            KeyLocation::PlacedObjects => "By the controller, on objects that Rego policies place",
            KeyLocation::Copies => "On copies, on the spokes",
            KeyLocation::Works => "On ManifestWorks",
            KeyLocation::Topology => "By the controller, on the ConfigMap of the topology",
            KeyLocation::Reports => "By the controller, on reports of audits",
        };
        let known = ALL.iter().filter(|(found, ..)| found == location);
        let mut known: BTreeSet<_> = known.map(|(_, metadata, key)| (*metadata, (*key).to_owned())).collect();
        if *location == KeyLocation::UserObjects {
            // A label of Open Cluster Management.
            known.insert((MetadataKind::Label, PLACEMENT_LABEL.to_owned()));
        }
        assert_eq!(documented(&page, heading), known, "{heading}");
    }
}

#[test]
fn every_label_of_a_role_is_documented() {
    let role: Value = serde_saphyr::from_str(&read("ocm-manifests/spoke/work-agent.yaml")).unwrap();
    let labels = role["metadata"]["labels"].as_object().unwrap();
    let mut known: BTreeSet<_> = labels.keys().map(|key| (MetadataKind::Label, key.clone())).collect();
    // The chart's aggregated ClusterRole selects roles by this label.
    let collected = read("charts/policy-sync/templates/policies.yaml");
    let (_, selector) = collected.split_once("clusterRoleSelectors:").unwrap();
    let label = selector.lines().find_map(|line| line.trim().strip_suffix(r#": "true""#)).unwrap();
    known.insert((MetadataKind::Label, label.to_owned()));
    assert_eq!(documented(&read("docs/annotations.md"), "On ClusterRoles"), known);
}
