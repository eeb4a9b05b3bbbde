//! Reads an API server's audit log.
//!
//! Tests use the log to count requests, including rejected requests, separately for the controller, agents and
//! users.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::ControlPlane;

pub(crate) const POLICY_FILE: &str = "audit-policy.yaml";
pub(crate) const LOG_FILE: &str = "audit.log";

/// Logs every completed request without its body. A watch is logged when it starts and when it ends.
pub(crate) const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, Panic]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
"#;

/// A logged request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The verb, such as `create`, `patch` or `get`.
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI", default)]
    pub uri: String,
    /// The object or list in the path, if any.
    pub object_ref: Option<ObjectRef>,
    /// When the response was sent.
    pub stage_timestamp: MicroTime,
    user: User,
    response_status: Option<Status>,
}

/// The object or list that a request addresses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// The API group, empty for the core group.
    pub api_group: String,
    /// The plural name of the kind.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The name, empty for a list.
    pub name: String,
    /// The subresource, empty for the object itself.
    pub subresource: String,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

impl Request {
    /// Whether the verb changes objects.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// The response's status code, 0 if none was logged.
    pub fn code(&self) -> u16 {
        self.response_status.as_ref().map_or(0, |status| status.code)
    }

    /// Whether the hub rejected the request. A timeout of a busy hub (504) does not count.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        !matches!(self.code(), 200..300 | 504)
    }

    /// The addressed object, empty if there is none.
    pub fn object(&self) -> ObjectRef {
        self.object_ref.clone().unwrap_or_default()
    }
}

/// The part of an audit log that is already parsed, so that each line is parsed only once.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    bytes: u64,
    by_user: HashMap<String, Vec<Request>>,
}

impl Log {
    fn requests_of(&self, path: &Path, user: &str) -> io::Result<Vec<Request>> {
        let mut lines = self.0.lock();
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(lines.bytes))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        // The last line may be incomplete.
        for line in new.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            lines.bytes += line.len() as u64;
            if let Ok(request) = serde_json::from_slice::<Request>(line) {
                lines.by_user.entry(request.user.username.clone()).or_default().push(request);
            }
        }
        Ok(lines.by_user.get(user).cloned().unwrap_or_default())
    }
}

/// Requests of `user` for objects of `plane` in order, without watches and access reviews. An incomplete last line is
/// skipped.
pub fn requests_of(plane: &ControlPlane, user: &str) -> Result<Vec<Request>> {
    let mut requests = all_requests_of(plane, user)?;
    requests
        .retain(|request| request.verb != "watch" && request.object().api_group != "authorization.k8s.io");
    Ok(requests)
}

/// All requests of `user`, with access reviews and watches. A watch appears when it starts, and again when it ends.
pub fn all_requests_of(plane: &ControlPlane, user: &str) -> Result<Vec<Request>> {
    let path = plane.directory().join(LOG_FILE);
    plane.audit().requests_of(&path, user).with_context(|| format!("reading {}", path.display()))
}
