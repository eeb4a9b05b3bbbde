//! The ids of modules.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The id of a module: `<namespace>/<name>/<key>` of a ConfigMap, `regopolicies/<name>`, or the path of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModuleId(Arc<str>);

impl ModuleId {
    /// The module of this name.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The object that carries the module: `<namespace>/<name>` of a ConfigMap, the whole id of a RegoPolicy, or the
    /// folder of a file.
    #[must_use]
    pub fn carrier(&self) -> &str {
        match self.0.rsplit_once('/') {
            Some((carrier, _)) if carrier.contains('/') => carrier,
            _ => &self.0,
        }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
