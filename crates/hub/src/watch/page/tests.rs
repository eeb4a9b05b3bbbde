use std::io;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::*;
use policy_sync_api::object::WithText;

/// The hub writes the list metadata before the objects.
const HEAD: &str = r#"{"kind":"GatewayList","apiVersion":"gateway.networking.k8s.io/v1","metadata":{"resourceVersion":"20","continue":"more"},"items":"#;

/// A page that arrives in these `pieces`.
async fn streamed_page<'a>(
    pieces: impl Stream<Item = io::Result<&'a [u8]>> + Unpin,
) -> Result<StreamedPage<impl AsyncBufRead + Unpin>, Error> {
    StreamedPage::new(pieces.into_async_read()).await
}

async fn page(text: &str) -> Result<Page, Error> {
    streamed_page(stream::iter([Ok(text.as_bytes())])).await?.read_all().await
}

fn names(page: &Page) -> Result<Vec<String>, PageError> {
    let mut names = Vec::new();
    page.for_each::<HubObject>(|object| names.push(object.metadata.name))?;
    Ok(names)
}

/// The continue token and version of `header`.
fn token_and_version(header: &ListHeader) -> (Option<&str>, &str) {
    (header.next(), header.version())
}

#[test]
fn list_metadata_is_available_before_the_objects() {
    let pieces = stream::iter([Ok(HEAD.as_bytes())]).chain(stream::pending());
    let streamed_page = streamed_page(pieces).now_or_never().unwrap().unwrap();
    assert_eq!(token_and_version(streamed_page.header()), (Some("more"), "20"));
    assert!(streamed_page.read_all().now_or_never().is_none());
}

#[tokio::test]
async fn page_may_arrive_in_any_pieces() {
    let text = format!(r#"{HEAD}[{{"metadata":{{"name":"wéb"}}}}]}}"#);
    for end in 0..=text.len() {
        let (one, other) = text.as_bytes().split_at(end);
        // An empty piece does not end the stream.
        let page = streamed_page(stream::iter([Ok(one), Ok(other)]).boxed()).await.unwrap();
        assert_eq!(token_and_version(page.header()), (Some("more"), "20"));
        assert_eq!(names(&page.read_all().await.unwrap()).unwrap(), ["wéb"], "{end}");
    }
    let bytes = text.as_bytes().chunks(1).map(Ok);
    assert_eq!(
        names(&streamed_page(stream::iter(bytes)).await.unwrap().read_all().await.unwrap()).unwrap(),
        ["wéb"]
    );
}

#[tokio::test]
async fn interrupted_page_is_an_error() {
    let broken = || Err(io::ErrorKind::UnexpectedEof.into());
    let error =
        streamed_page(stream::iter([Ok(&HEAD.as_bytes()[..9]), broken()])).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Service(_)), "{error:?}");
    let streamed_page = streamed_page(stream::iter([Ok(HEAD.as_bytes()), broken()])).await.unwrap();
    let error = streamed_page.read_all().await.unwrap_err();
    assert!(matches!(error, Error::Service(_)), "{error:?}");
    let error = page(&format!("{HEAD}[{{")).await.map(|page| names(&page).unwrap_err().number);
    assert_eq!(error.unwrap(), Some(1));
}

#[tokio::test]
async fn list_metadata_may_follow_the_objects() {
    let complete_list: Value =
        serde_json::from_str(&format!(r#"{HEAD}[{{"metadata":{{"name":"web"}}}}]}}"#)).unwrap();
    let fields = ["kind", "apiVersion", "metadata", "items"];
    for turned in 0..fields.len() {
        let fields: Vec<String> = (0..4)
            .map(|place| fields[(place + turned) % 4])
            .map(|name| format!("{name:?}:{}", complete_list[name]))
            .collect();
        let page = page(&format!("{{{}}}", fields.join(","))).await.unwrap();
        assert_eq!(token_and_version(&page.header), (Some("more"), "20"));
        page.for_each::<WithText>(|object| {
            assert_eq!((&*object.kind, &*object.api_version), ("Gateway", "gateway.networking.k8s.io/v1"));
            assert_eq!(object.text.unwrap().get(), r#"{"metadata":{"name":"web"}}"#);
        })
        .unwrap();
    }
}

#[tokio::test]
async fn list_may_be_empty_and_without_metadata() {
    for list in [json!({"items": []}), json!({"items": null}), json!({"metadata": {}, "items": []})] {
        let page = page(&list.to_string()).await.unwrap();
        assert_eq!((token_and_version(&page.header), names(&page).unwrap()), ((None, ""), Vec::new()));
    }
}

#[tokio::test]
async fn invalid_list_is_not_treated_as_empty() {
    for text in ["", "[]", "3", r#"{"kind":"#, r#"{"metadata":3}"#] {
        let error = page(text).await.unwrap_err();
        assert!(matches!(error, Error::SerdeError(_)), "{text}: {error:?}");
    }
    let no_text = streamed_page(stream::iter([Ok(HEAD.as_bytes()), Ok(b"\xff")])).await.unwrap();
    let error = no_text.read_all().await.unwrap_err();
    assert!(matches!(error, Error::FromUtf8(_)), "{error:?}");
    let texts = [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{}}"#.to_owned(),
        format!("{HEAD}3}}"),
        format!("{HEAD}[]"),
        format!("{HEAD}[]}}]"),
        format!("{HEAD}[],\"items\":[]}}"),
    ];
    for text in texts {
        assert_eq!(names(&page(&text).await.unwrap()).unwrap_err().number, None, "{text}");
    }
}

#[tokio::test]
async fn invalid_object_is_reported_by_number() {
    for second in ["3", r#"{"metadata":{"labels":3}}"#, r#"{"metadata":"#] {
        let page = page(&format!(r#"{HEAD}[{{}},{second}]}}"#)).await.unwrap();
        assert_eq!(names(&page).unwrap_err().number, Some(2), "{second}");
    }
}
