//! Forwards the events of a watch line by line, and injects the planned fault.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use futures::{Stream, TryStreamExt, stream};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::io::StreamReader;

use super::{Fault, Shared};

/// The events in `body`, a watch of `resource`, with the planned fault at one event.
pub(super) fn disturbed(
    shared: Arc<Shared>,
    resource: String,
    body: Body,
) -> impl Stream<Item = io::Result<String>> {
    let bytes = body.into_data_stream().map_err(io::Error::other);
    let lines = BufReader::new(StreamReader::new(bytes)).lines();
    stream::try_unfold(Some(lines), move |lines| {
        let (shared, resource) = (shared.clone(), resource.clone());
        async move {
            let Some(mut lines) = lines else { return Err(io::ErrorKind::ConnectionReset.into()) };
            let Some(line) = lines.next_line().await? else { return Ok(None) };
            let is_bookmark = line.starts_with(r#"{"type":"BOOKMARK""#);
            let fault = if is_bookmark { None } else { shared.fault("event", &resource) };
            let line = format!("{line}\n");
            Ok(match fault {
                Some(Fault::Cut) => None,
                // Sends half of the line, and then an error.
                Some(Fault::CutWithin) => Some((half(&line).to_owned(), None)),
                Some(Fault::Expired) => Some((expired(), Some(lines))),
                Some(Fault::Twice) => Some((line.repeat(2), Some(lines))),
                Some(Fault::Garbled) => Some(("{\"type\":\"ADDED\",{\n".to_owned(), Some(lines))),
                Some(Fault::Late(late)) => {
                    tokio::time::sleep(late).await;
                    Some((line, Some(lines)))
                }
                _ => Some((line, Some(lines))),
            })
        }
    })
}

fn half(line: &str) -> &str {
    &line[..line.floor_char_boundary(line.len() / 2)]
}

fn expired() -> String {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    format!("{}\n", json!({"type": "ERROR", "object": status}))
}
