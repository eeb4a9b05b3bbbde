//! Reads the Gateways that the work of a policy serves from its annotation.
//!
//! A spoke's agent may write as many names as an annotation holds, so only the first few are kept.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use policy_sync_api::syntax::is_dns_subdomain;

/// The maximum number of Gateways: a policy has at most as many targets
/// ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/)).
const LIMIT: usize = 16;

/// The names in the JSON list `text`; empty if it is not a list of strings.
pub(super) fn named(text: &str) -> Arc<[Arc<str>]> {
    serde_json::from_str(text).map(|Names(names)| names.into()).unwrap_or_default()
}

struct Names(Vec<Arc<str>>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(First)
    }
}

struct First;

impl<'de> Visitor<'de> for First {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut names: Vec<Arc<str>> = Vec::new();
        while let Some(name) = list.next_element::<String>()? {
            if names.len() < LIMIT && is_dns_subdomain(&name) && names.iter().all(|known| **known != *name) {
                names.push(name.into());
            }
        }
        Ok(Names(names))
    }
}
