//! CRDs of sample policies that resemble Kuadrant's: two kinds with `targetRef`, one with `targetRefs`.

use anyhow::{Context, Result};

use super::{Crd, published};

const FILES: [(&str, &str); 3] = [
    ("ratelimitpolicies", include_str!("../../crds/ratelimitpolicies.yaml")),
    ("authpolicies", include_str!("../../crds/authpolicies.yaml")),
    ("timeoutpolicies", include_str!("../../crds/timeoutpolicies.yaml")),
];

pub(super) fn all() -> Result<Vec<Crd>> {
    FILES
        .iter()
        .map(|(name, text)| published::parse(text).with_context(|| format!("crds/{name}.yaml")))
        .collect()
}
