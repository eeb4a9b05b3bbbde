//! Finds changes that other clients have made to this project's modules and data in OPA.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use http::{Method, StatusCode};
use regorus::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::contents::{OpaContents, PREFIX};
use super::installed::MARKED;
use super::push::{PushError, REQUEST_TIMEOUT, part};
use super::responses::{decision, lacks_modules};
use super::server::Opa;
use policy_sync_hub::json_client::{JsonClient, JsonClientError};

/// The maximum size of a response, in bytes. OPA lists modules with their syntax trees, which are far larger than their
/// texts.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// The time limit for one comparison of data. The next comparison continues at the part at which the previous one
/// stopped.
const COMPARISON_TIMEOUT: Duration = Duration::from_millis(250);
/// The number of objects above which data is compared in parts.
const MAX_PART_OBJECTS: usize = 1_000;

/// A policy that OPA lists.
#[derive(Deserialize)]
pub(super) struct ListedPolicy {
    pub(super) id: String,
    /// The text of the policy.
    #[serde(default)]
    raw: String,
}

/// All policies in OPA, including the policies of other clients.
pub(super) async fn policies(client: &JsonClient) -> Result<Vec<ListedPolicy>, JsonClientError> {
    #[derive(Deserialize)]
    struct ListPoliciesResponse {
        #[serde(default)]
        result: Vec<ListedPolicy>,
    }
    let response = client
        .send_once_limited(Method::GET, "/v1/policies", Bytes::new(), REQUEST_TIMEOUT, MAX_RESPONSE_BYTES)
        .await?;
    if response.status != StatusCode::OK {
        return Err(client.status_error(&response));
    }
    let policies: ListPoliciesResponse =
        serde_json::from_slice(&response.body).map_err(|error| client.parse_error(&error))?;
    Ok(policies.result)
}

impl Opa {
    /// Whether OPA has all modules, and the marker of `contents`.
    ///
    /// # Errors
    ///
    /// If OPA is unreachable.
    pub async fn is_marked(&self, contents: &OpaContents) -> Result<bool, PushError> {
        let client = &self.0.client;
        let request = json!({"query": format!("decision = []; {MARKED}")}).to_string();
        let response = client.send_once(Method::POST, "/v1/query", request.into(), REQUEST_TIMEOUT).await?;
        if !response.status.is_success() && !lacks_modules(&response.body) {
            return Err(client.status_error(&response).into());
        }
        let found = decision(&response.body).map_err(|error| client.parse_error(&error))?;
        Ok(found.is_some_and(|(_, revision)| revision == contents.revision()))
    }

    /// Returns the first difference between OPA and `contents`, if there is one. Compares all modules, then the data
    /// from part number `next` on until the time limit.
    ///
    /// # Errors
    ///
    /// If OPA is unreachable, or does not list its policies or data.
    pub async fn find_drift(
        &self,
        contents: &OpaContents,
        next: &mut usize,
    ) -> Result<Option<String>, PushError> {
        let client = &self.0.client;
        let mut desired = contents.policies();
        for ListedPolicy { id, raw } in policies(client).await? {
            match desired.remove(&id) {
                Some(text) if *text == *raw => {}
                Some(_) => return Ok(Some(format!("the text of module {id} differs"))),
                None if id.starts_with(PREFIX) => return Ok(Some(format!("module {id} was added"))),
                None => {}
            }
        }
        if let Some((id, _)) = desired.first_key_value() {
            return Ok(Some(format!("module {id} is missing")));
        }
        let (parts, until) = (parts(contents), Instant::now() + COMPARISON_TIMEOUT);
        for _ in 0..parts.len() {
            let Some((path, value)) = parts.get(*next).or_else(|| parts.first()) else { break };
            *next = if *next < parts.len() { *next + 1 } else { 1 };
            let at = path.iter().map(|name| format!("/{}", part(name))).collect::<String>();
            let at = format!("/v1/data{at}");
            let response = client
                .send_once_limited(Method::GET, &at, Bytes::new(), REQUEST_TIMEOUT, MAX_RESPONSE_BYTES)
                .await?;
            if response.status != StatusCode::OK {
                return Err(client.status_error(&response).into());
            }
            if !is_same(value, &response.body).map_err(|error| client.parse_error(&error))? {
                return Ok(Some(format!("data.{} differs", path.join("."))));
            }
            if Instant::now() >= until {
                break;
            }
        }
        Ok(None)
    }
}

/// The data of `contents` in parts, each with its path below `data`.
fn parts(contents: &OpaContents) -> Vec<(Vec<&str>, &Value)> {
    let mut parts = Vec::new();
    for (root, value) in contents.roots() {
        for (name, value) in fields(value) {
            let objects: usize = fields(value).map(|(_, value)| fields(value).count().max(1)).sum();
            if objects <= MAX_PART_OBJECTS {
                parts.push((vec![root, name], value));
            } else {
                parts.extend(fields(value).map(|(below, value)| (vec![root, name, below], value)));
            }
        }
    }
    parts
}

fn fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = value.as_object().into_iter().flat_map(|fields| fields.iter());
    fields.filter_map(|(name, value)| Some((name.as_string().ok()?.as_ref(), value)))
}

/// Whether the result in `body` equals `value`.
fn is_same(value: &Value, body: &[u8]) -> Result<bool, serde_json::Error> {
    #[derive(Deserialize)]
    struct DataResponse<T> {
        result: Option<T>,
    }
    let response: DataResponse<Value> = serde_json::from_slice(body)?;
    if response.result.as_ref() == Some(value) {
        return Ok(true);
    }
    // The engine has several representations of a number, and may treat equal numbers as different. So the values
    // are also compared as JSON.
    let response: DataResponse<Json> = serde_json::from_slice(body)?;
    Ok(response.result == Some(serde_json::to_value(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: Json) -> Value {
        json.into()
    }

    #[test]
    fn comparison_ignores_the_order_of_keys_and_the_form_of_numbers() {
        let ours = value(json!({"a": [1, -1, 1.5, 1e21, 18446744073709551615u64, null, true], "b": "<é>"}));
        let same = r#"{"result":{"b":"\u003cé\u003e","a":[1,-1,1.5,1e21,18446744073709551615,null,true]}}"#;
        assert!(is_same(&ours, same.as_bytes()).unwrap());
        for other in [r#"{"result":{"b":"<é>"}}"#, r#"{"result":{}}"#, "{}", r#"{"result":null}"#] {
            assert!(!is_same(&ours, other.as_bytes()).unwrap(), "{other}");
        }
        assert!(is_same(&ours, b"{").is_err());
    }

    #[test]
    fn large_data_is_compared_in_parts() {
        let namespace = |count: usize| {
            (0..count).map(|n| (format!("p{n}"), json!({}))).collect::<serde_json::Map<_, _>>()
        };
        let data = json!({"kubernetes": {
            "few": {"shop": namespace(2)},
            "many": {"shop": namespace(MAX_PART_OBJECTS), "other": namespace(1)},
        }, "policies": {}});
        let contents = OpaContents::new(&Default::default(), value(data));
        let paths: Vec<_> = parts(&contents).into_iter().map(|(path, _)| path.join(".")).collect();
        assert_eq!(paths, ["kubernetes.few", "kubernetes.many.other", "kubernetes.many.shop"]);
    }
}
