//! A streamed page of a list. Its list metadata is parsed as soon as it has arrived. The next page can then be
//! requested while this page is still being received. The objects are decoded one at a time, so that a page needs the
//! memory of its text and of one object.

use std::fmt;
use std::marker::PhantomData;

use futures::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use policy_sync_api::object::HubObject;

/// A page being streamed; only its list metadata is parsed.
#[derive(Debug)]
pub(super) struct StreamedPage<R> {
    rest: R,
    text: Vec<u8>,
    header: ListHeader,
}

/// A complete page with objects that are not decoded yet.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    header: ListHeader,
}

/// The list's type and metadata.
#[derive(Debug, Default)]
pub(super) struct ListHeader {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<ListMeta>,
}

/// Why a page cannot be parsed.
#[derive(Debug)]
pub(super) struct PageError {
    /// The position of the invalid object, from 1; `None` if the error is elsewhere.
    pub(super) number: Option<usize>,
    /// The error of the parser.
    pub(super) source: serde_json::Error,
}

impl<R: AsyncBufRead + Unpin> StreamedPage<R> {
    /// Reads `text` until the list metadata is complete.
    pub(super) async fn new(text: R) -> Result<Self, Error> {
        let mut page = Self { rest: text, text: Vec::new(), header: ListHeader::default() };
        // If the objects come before the list metadata, the next attempt to parse waits until the text has doubled in
        // size.
        let mut parsed_length = 0;
        while page.read().await? {
            if page.text.len() < 2 * parsed_length {
                continue;
            }
            parsed_length = page.text.len();
            page.header = ListHeader::default();
            // An error may mean only that the text is incomplete.
            _ = page.header.read(&page.text);
            if page.header.is_complete() {
                return Ok(page);
            }
        }
        page.header = ListHeader::default();
        page.header.read(&page.text).map_err(Error::SerdeError)?;
        Ok(page)
    }

    /// Reads the rest of the page.
    pub(super) async fn read_all(mut self) -> Result<Page, Error> {
        while self.read().await? {}
        let text = String::from_utf8(self.text).map_err(Error::FromUtf8)?;
        Ok(Page { text, header: self.header })
    }

    /// Reads the next chunk; `false` at the end.
    async fn read(&mut self) -> Result<bool, Error> {
        let more = self.rest.fill_buf().await.map_err(|error| Error::Service(error.into()))?;
        let length = more.len();
        self.text.extend_from_slice(more);
        self.rest.consume_unpin(length);
        Ok(length > 0)
    }
}

impl<R> StreamedPage<R> {
    /// The list metadata.
    pub(super) fn header(&self) -> &ListHeader {
        &self.header
    }
}

impl Page {
    /// Decodes each object as `O` and passes it to `take`.
    pub(super) fn for_each<O: DeserializeOwned + Into<HubObject>>(
        &self,
        mut take: impl FnMut(HubObject),
    ) -> Result<(), PageError> {
        let mut number = None;
        let take = |object: O| take(self.header.typed(object.into()));
        let list = List(Items { take, number: &mut number, of: PhantomData });
        let mut json = serde_json::Deserializer::from_str(&self.text);
        let read = json.deserialize_map(list).and_then(|()| json.end());
        read.map_err(|source| PageError { number, source })
    }
}

impl ListHeader {
    /// The continue token; `None` on the last page.
    pub(super) fn next(&self) -> Option<&str> {
        self.metadata.as_ref()?.continue_.as_deref()
    }

    /// The list's resource version; empty if absent.
    pub(super) fn version(&self) -> &str {
        let version = self.metadata.as_ref().and_then(|metadata| metadata.resource_version.as_deref());
        version.unwrap_or_default()
    }

    /// Parses the metadata from `text`, and stops once it is complete.
    fn read(&mut self, text: &[u8]) -> Result<(), serde_json::Error> {
        let read = serde_json::Deserializer::from_slice(text).deserialize_map(&mut *self);
        // Stopping early makes the parser report an error, which can be ignored.
        if self.is_complete() { Ok(()) } else { read }
    }

    fn is_complete(&self) -> bool {
        self.api_version.is_some() && self.kind.is_some() && self.metadata.is_some()
    }

    /// Adds the kind and API version, which items of a list may omit.
    fn typed(&self, mut object: HubObject) -> HubObject {
        if object.kind.is_empty() {
            let kind = self.kind.as_deref().and_then(|kind| kind.strip_suffix("List"));
            kind.unwrap_or_default().clone_into(&mut object.kind);
            self.api_version.as_deref().unwrap_or_default().clone_into(&mut object.api_version);
        }
        object
    }
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for &mut ListHeader {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while !self.is_complete()
            && let Some(field) = fields.next_key()?
        {
            match field {
                Field::ApiVersion => self.api_version = Some(fields.next_value()?),
                Field::Kind => self.kind = Some(fields.next_value()?),
                Field::Metadata => self.metadata = Some(fields.next_value()?),
                Field::Items | Field::Other => _ = fields.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// Parses a list and ignores all but its objects.
struct List<'a, O, F>(Items<'a, O, F>);

impl<'de, O: DeserializeOwned, F: FnMut(O)> Visitor<'de> for List<'_, O, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut items = Some(self.0);
        while let Some(field) = fields.next_key()? {
            match (field, items.take()) {
                (Field::Items, Some(items)) => fields.next_value_seed(items)?,
                (Field::Items, None) => return Err(A::Error::duplicate_field("items")),
                (_, unread) => {
                    items = unread;
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        // An object without `items` is not a list. Treating it as an empty list would delete all objects.
        if items.is_some() { Err(A::Error::missing_field("items")) } else { Ok(()) }
    }
}

/// The objects of a list.
struct Items<'a, O, F> {
    take: F,
    /// The position of the object being decoded.
    number: &'a mut Option<usize>,
    of: PhantomData<O>,
}

impl<'de, O: DeserializeOwned, F: FnMut(O)> DeserializeSeed<'de> for Items<'_, O, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, O: DeserializeOwned, F: FnMut(O)> Visitor<'de> for Items<'_, O, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("objects")
    }

    /// Some servers send `null` instead of an empty list.
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut objects: A) -> Result<(), A::Error> {
        for number in 1.. {
            *self.number = Some(number);
            let Some(object) = objects.next_element()? else { break };
            (self.take)(object);
        }
        *self.number = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
