//! Writes: creates, updates, patches, applies and deletes.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::fields::{Owner, applied, updated};
use super::kinds::Kind;
use super::request::Request;
use super::status_error::StatusError;
use super::store::{KindKey, ObjectKey, Store, Stored};

/// A write to a single object.
pub(super) struct ObjectWrite<'r> {
    pub(super) store: &'r mut Store,
    pub(super) kind: Arc<Kind>,
    pub(super) request: &'r Request,
    /// The current time as text.
    pub(super) now: String,
}

impl ObjectWrite<'_> {
    fn kind_key(&self) -> KindKey {
        (self.kind.group.clone(), self.kind.resource.clone())
    }

    fn key(&self) -> ObjectKey {
        (self.request.info.namespace.clone(), self.request.info.name.clone())
    }

    fn name(&self) -> &str {
        &self.request.info.name
    }

    fn found(&self) -> Option<Stored> {
        self.store.get(&self.kind_key(), &self.key()).cloned()
    }

    fn writes_status(&self) -> bool {
        self.request.info.subresource == "status"
    }

    fn owner(&self, applies: bool) -> Owner {
        Owner {
            manager: self.request.manager.clone(),
            applies,
            subresource: self.request.info.subresource.clone(),
            fields: Default::default(),
            time: self.now.clone(),
            api_version: self.kind.api_version(&self.request.info.version),
        }
    }

    pub(super) fn create(&mut self) -> Result<(u16, Value), StatusError> {
        let body = object(&self.request.body)?;
        if self.name().is_empty() {
            return Err(StatusError::invalid(
                &self.kind,
                "",
                "metadata.name: Required value: name is required",
            ));
        }
        if self.found().is_some() {
            return Err(StatusError::already_exists(&self.kind, self.name()));
        }
        if !body["metadata"]["resourceVersion"].as_str().unwrap_or_default().is_empty() {
            return Err(StatusError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let owner = self.owner(false);
        self.insert(body, owner).map(|created| (201, created))
    }

    /// Stores a new object whose fields belong to `owner`.
    fn insert(&mut self, mut object: Value, mut owner: Owner) -> Result<Value, StatusError> {
        let namespace = &self.request.info.namespace;
        let namespaces = (String::new(), "namespaces".to_owned());
        if self.kind.namespaced && self.store.get(&namespaces, &(String::new(), namespace.clone())).is_none()
        {
            let kind = self.store.kinds[&namespaces].clone();
            return Err(StatusError::not_found(&kind, namespace));
        }
        if self.kind.status {
            remove(&mut object, "status");
        }
        object["apiVersion"] = json!(self.kind.api_version(&self.request.info.version));
        object["kind"] = json!(self.kind.kind);
        object["metadata"]["name"] = json!(self.request.info.name);
        let uid = self.store.new_uid();
        let metadata = metadata(&mut object);
        for field in
            ["managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"]
        {
            metadata.remove(field);
        }
        metadata.insert("uid".to_owned(), json!(uid));
        metadata.insert("creationTimestamp".to_owned(), json!(self.now));
        if self.kind.namespaced {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        if self.kind.generation {
            metadata.insert("generation".to_owned(), json!(1));
        }
        tidy(metadata);
        owner.fields = self.kind.lists.fields(&object);
        let owners = if owner.fields.is_empty() { Vec::new() } else { vec![owner] };
        if self.is_definition() {
            establish(&mut object, &self.now);
            if let Some(kind) = Kind::defined_by(&object) {
                self.store.register(kind);
            }
        }
        let (kind, key) = (self.kind_key(), self.key());
        Ok(self.store.put(&kind, &key, object, owners).as_ref().clone())
    }

    fn is_definition(&self) -> bool {
        self.kind.resource == "customresourcedefinitions"
    }

    pub(super) fn update(&mut self) -> Result<(u16, Value), StatusError> {
        let body = object(&self.request.body)?;
        let found = self.found().ok_or_else(|| StatusError::not_found(&self.kind, self.name()))?;
        let version = body["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if version.is_empty() && self.kind.custom {
            let fault = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
            return Err(StatusError::invalid(&self.kind, self.name(), fault));
        }
        self.check_uid(&body, &found)?;
        self.replace(found, body, None).map(|object| (200, object))
    }

    /// Rejects a body with the uid of another object.
    fn check_uid(&self, body: &Value, found: &Stored) -> Result<(), StatusError> {
        let wanted = body["metadata"]["uid"].as_str().unwrap_or_default();
        let uid = found.object["metadata"]["uid"].as_str().unwrap_or_default();
        if wanted.is_empty() || wanted == uid {
            return Ok(());
        }
        Err(StatusError::precondition(&self.kind, self.name(), "UID", wanted, uid))
    }

    pub(super) fn patch(&mut self) -> Result<(u16, Value), StatusError> {
        let content = self.request.content.clone();
        if content == "application/apply-patch+yaml" {
            return self.apply();
        }
        let found = self.found().ok_or_else(|| StatusError::not_found(&self.kind, self.name()))?;
        let mut new = found.object.as_ref().clone();
        match content.as_str() {
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                json_patch::merge(&mut new, &object(&self.request.body)?);
            }
            "application/json-patch+json" => {
                let patch: json_patch::Patch = serde_json::from_slice(&self.request.body)
                    .map_err(|error| StatusError::bad_request(&error.to_string()))?;
                json_patch::patch(&mut new, &patch).map_err(|_| StatusError::inapplicable_patch())?;
            }
            _ => return Err(StatusError::unsupported(&content)),
        }
        self.replace(found, new, None).map(|object| (200, object))
    }

    fn apply(&mut self) -> Result<(u16, Value), StatusError> {
        let mut body = object(&self.request.body)?;
        let force = self.request.parameter("force") == "true";
        let mut owner = self.owner(true);
        let Some(found) = self.found() else {
            if self.writes_status() {
                return Err(StatusError::not_found(&self.kind, self.name()));
            }
            // The body has a uid, so the object existed. An object with another uid must not be created.
            if let Some(uid) = body["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
                return Err(StatusError::precondition(&self.kind, self.name(), "UID", uid, ""));
            }
            return self.insert(body, owner).map(|created| (201, created));
        };
        self.keep_own_part(&mut body, &json!({}));
        owner.fields = self.kind.lists.fields(&body);
        let mut owners = found.owners.clone();
        let new = applied(&mut owners, &self.kind.lists, owner, &found.object, &body, force)
            .map_err(|conflicts| StatusError::owned(&conflicts))?;
        self.replace(found, new, Some(owners)).map(|object| (200, object))
    }

    /// Restores from `old` the part of `new` that this endpoint does not write.
    fn keep_own_part(&self, new: &mut Value, old: &Value) {
        if self.writes_status() {
            let status = new.get("status").cloned();
            let metadata = new["metadata"].clone();
            *new = old.clone();
            set(new, "status", status);
            if new["metadata"].is_null() {
                new["metadata"] = json!({"name": metadata["name"], "namespace": metadata["namespace"]});
            }
        } else if self.kind.status {
            set(new, "status", old.get("status").cloned());
        }
    }

    /// Replaces `found` with `new`. Without `owners`, derives the field managers from the changes.
    fn replace(
        &mut self,
        found: Stored,
        mut new: Value,
        owners: Option<Vec<Owner>>,
    ) -> Result<Value, StatusError> {
        let old = found.object.as_ref();
        let sent = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !sent.is_empty() && old["metadata"]["resourceVersion"] != sent {
            return Err(StatusError::modified(&self.kind, self.name()));
        }
        if new["metadata"]["uid"] != old["metadata"]["uid"] && new["metadata"]["uid"].is_string() {
            let fault =
                format!("metadata.uid: Invalid value: {}: field is immutable", new["metadata"]["uid"]);
            return Err(StatusError::invalid(&self.kind, self.name(), &fault));
        }
        self.keep_own_part(&mut new, old);
        new["apiVersion"] = old["apiVersion"].clone();
        new["kind"] = old["kind"].clone();
        let before = old["metadata"].as_object().cloned().unwrap_or_default();
        let metadata = metadata(&mut new);
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
        ] {
            match before.get(field) {
                Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
                None => drop(metadata.remove(field)),
            }
        }
        tidy(metadata);
        let deleting = before.contains_key("deletionTimestamp");
        let finalizers = |metadata: &Map<String, Value>| {
            metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let (had, has) = (finalizers(&before), finalizers(metadata));
        if deleting && has.iter().any(|finalizer| !had.contains(finalizer)) {
            let fault = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
            return Err(StatusError::invalid(&self.kind, self.name(), fault));
        }
        let owners = owners.unwrap_or_else(|| {
            let mut owners = found.owners.clone();
            updated(&mut owners, &self.kind.lists, self.owner(false), old, &new);
            owners
        });
        if new == *old && owners == found.owners {
            return Ok(new);
        }
        if self.kind.generation && wanted(&new, self.kind.status) != wanted(old, self.kind.status) {
            new["metadata"]["generation"] =
                json!(old["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        if self.is_definition() && !self.writes_status() {
            let defined = (text(&new["spec"]["group"]), text(&new["spec"]["names"]["plural"]));
            match Kind::defined_by(&new) {
                Some(kind) => self.store.register(kind),
                None => drop(self.store.kinds.remove(&defined)),
            }
        }
        let (kind, key) = (self.kind_key(), self.key());
        let stored = self.store.put(&kind, &key, new, owners);
        if deleting && has.is_empty() {
            self.store.remove(&kind, &key);
        }
        Ok(stored.as_ref().clone())
    }

    pub(super) fn delete(&mut self) -> Result<(u16, Value), StatusError> {
        let found = self.found().ok_or_else(|| StatusError::not_found(&self.kind, self.name()))?;
        let options: Value = serde_json::from_slice(&self.request.body).unwrap_or_default();
        let (wanted, found_metadata) = (&options["preconditions"], &found.object["metadata"]);
        let uid = text(&found_metadata["uid"]);
        if let Some(wanted) = wanted["uid"].as_str().filter(|wanted| *wanted != uid) {
            return Err(StatusError::precondition(&self.kind, self.name(), "UID", wanted, &uid));
        }
        if let Some(version) = wanted["resourceVersion"].as_str()
            && found_metadata["resourceVersion"] != version
        {
            let found = text(&found_metadata["resourceVersion"]);
            return Err(StatusError::precondition(
                &self.kind,
                self.name(),
                "ResourceVersion",
                version,
                &found,
            ));
        }
        let (kind, key) = (self.kind_key(), self.key());
        if found_metadata["finalizers"].as_array().is_none_or(Vec::is_empty) {
            if self.is_definition() {
                let spec = &found.object["spec"];
                self.store.unregister(&(text(&spec["group"]), text(&spec["names"]["plural"])));
            }
            self.store.remove(&kind, &key);
            let details = json!({"name": self.name(), "group": self.kind.group, "kind": self.kind.resource, "uid": uid});
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            return Ok((200, status));
        }
        if !found_metadata["deletionTimestamp"].is_null() {
            return Ok((200, found.object.as_ref().clone()));
        }
        let mut object = found.object.as_ref().clone();
        object["metadata"]["deletionTimestamp"] = json!(self.now);
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = json!(generation + 1);
        }
        Ok((200, self.store.put(&kind, &key, object, found.owners).as_ref().clone()))
    }
}

/// The part of an object whose changes increment the generation: all fields except `metadata`, and
/// except `status` if it is a subresource.
fn wanted(object: &Value, has_status: bool) -> Value {
    let mut object = object.clone();
    remove(&mut object, "metadata");
    if has_status {
        remove(&mut object, "status");
    }
    object
}

fn object(body: &[u8]) -> Result<Value, StatusError> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| StatusError::bad_request(&error.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(StatusError::bad_request("the body is not an object")) }
}

fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().unwrap_or_else(|| unreachable!("it is an object"))
}

/// Removes empty maps and lists, and null, from metadata.
fn tidy(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null => false,
        _ => true,
    });
}

fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object[field] = value,
        None => remove(object, field),
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Sets the conditions of a served CustomResourceDefinition.
pub(super) fn establish(definition: &mut Value, now: &str) {
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now});
    definition["status"] = json!({
        "conditions": [condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")],
        "acceptedNames": definition["spec"]["names"],
        "storedVersions": definition["spec"]["versions"].as_array().into_iter().flatten()
            .filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect::<Vec<_>>(),
    });
}
