//! The CustomResourceDefinitions of this project.

use std::fs;
use std::path::Path;

use kube::CustomResourceExt;
use policy_sync_api::rego_policy::RegoPolicy;

/// `POLICY_SYNC_UPDATE=1 cargo test --test repository` updates the file.
#[test]
fn crd_of_rego_policies_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/policy-sync/files/regopolicies.yaml");
    let definition = serde_saphyr::to_string(&RegoPolicy::crd()).unwrap();
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        fs::write(&path, &definition).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == definition, "{} is outdated: set POLICY_SYNC_UPDATE=1 to update it", path.display());
}
