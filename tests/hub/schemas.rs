//! The check of overrides against a kind's schema agrees with a real API server: both accept or both reject.

use anyhow::{Context, Result, ensure};
use policy_sync_api::json::normalize;
use policy_sync_api::schema::Schema;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::overrides::{typed_definition, typed_policy};
use crate::tenant;

const GROUP: &str = "schemas.example.com";

/// Schemas, and values for each schema.
fn cases() -> Vec<(Value, Vec<Value>)> {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let text = || json!({"type": "string"});
    let every = || {
        vec![
            json!({}),
            json!({"a": 1}),
            json!([]),
            json!([1]),
            json!(""),
            json!("text"),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(2.0),
            json!(true),
            Value::Null,
            json!(i64::MAX),
            json!(1e17),
            json!(1e30),
        ]
    };
    let mut cases: Vec<(Value, Vec<Value>)> = ["string", "integer", "number", "boolean"]
        .into_iter()
        .flat_map(|is| {
            [json!({"type": is}), json!({"type": is, "nullable": true})].map(|schema| (schema, every()))
        })
        .collect();
    cases.extend([
        (json!({"type": "object"}), every()),
        (json!({"type": "object", "nullable": true}), every()),
        (json!({"type": "object", "additionalProperties": true}), every()),
        (json!({"type": "object", "additionalProperties": text()}), every()),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), every()),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), every()),
        (json!({"x-kubernetes-int-or-string": true}), every()),
        (json!({"type": "array", "items": {"type": "integer"}}), every()),
        (
            json!({"type": "array", "items": {"type": "integer", "nullable": true}}),
            vec![json!([null, 1]), json!([""])],
        ),
        (json!({"type": "array", "items": {"type": "integer"}}), vec![json!([null, 1])]),
    ]);
    let mut kept = object(json!({"a": object(json!({"b": text()})), "c": {"type": "object"}}));
    kept["x-kubernetes-preserve-unknown-fields"] = true.into();
    cases.push((
        kept,
        vec![
            json!({"x": {"y": 1}}),
            json!({"a": {"b": "", "x": 1}}),
            json!({"c": {"x": 1}}),
            json!({"a": {"b": 1}}),
        ],
    ));
    let embedded =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": text()}});
    cases.push((
        embedded,
        vec![
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": ""}),
            json!({"apiVersion": "v1", "kind": "K", "status": {}}),
        ],
    ));
    let mut required = object(
        json!({"a": text(), "b": {"type": "string", "default": "x"}, "c": {"type": "string", "nullable": true}}),
    );
    required["required"] = json!(["a", "b", "c"]);
    cases.push((
        required,
        vec![
            json!({"a": "", "b": "", "c": ""}),
            json!({"a": "", "c": ""}),
            json!({"a": "", "c": null}),
            json!({"a": "", "b": null, "c": ""}),
            json!({"a": null, "b": "", "c": ""}),
            json!({"a": "", "b": ""}),
            json!({}),
        ],
    ));
    let mut defaulted =
        object(json!({"a": {"type": "string", "default": "x", "nullable": true, "enum": ["x", "y"]}}));
    defaulted["required"] = json!(["a"]);
    cases.push((defaulted, vec![json!({"a": null}), json!({}), json!({"a": "z"}), json!({"a": "y"})]));
    cases.extend([
        (json!({"type": "string", "enum": ["a", "b"], "nullable": true}), vec![json!("a"), json!("c"), Value::Null]),
        (json!({"type": "number", "enum": [1, 2.5]}), vec![json!(1), json!(1.0), json!(2.5), json!(3)]),
        (json!({"type": "integer", "minimum": 1, "maximum": 3}), [0, 1, 3, 4].map(Value::from).into()),
        (
            json!({"type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 3, "exclusiveMaximum": true}),
            vec![json!(1), json!(1.1), json!(2), json!(3)],
        ),
        (
            json!({"type": "string", "minLength": 2, "maxLength": 3}),
            ["", "é", "éé", "ééé", "éééé", "😀", "😀😀"].map(Value::from).into(),
        ),
        (
            json!({"type": "string", "pattern": "b+$"}),
            ["abb", "bba", "ab\n", "é", "éb"].map(Value::from).into(),
        ),
        (json!({"type": "string", "pattern": "^[\\d\\w]+$"}), ["a1_", "a-", ""].map(Value::from).into()),
        (
            json!({"type": "array", "items": text(), "minItems": 1, "maxItems": 2}),
            vec![json!([]), json!(["a"]), json!(["a", "b"]), json!(["a", "b", "c"])],
        ),
        (
            json!({"type": "object", "additionalProperties": text(), "minProperties": 1, "maxProperties": 2}),
            vec![json!({}), json!({"a": ""}), json!({"a": "", "b": "", "c": ""})],
        ),
    ]);
    let ab = |rule: &str, alternatives: Value| {
        let mut schema = object(json!({"a": {"type": "integer"}, "b": text()}));
        schema[rule] = alternatives;
        let values =
            [json!({}), json!({"a": 1}), json!({"b": ""}), json!({"a": 9, "b": "long"}), json!({"a": null})];
        (schema, values.to_vec())
    };
    cases.extend([
        ab("oneOf", json!([{"required": ["a"]}, {"required": ["b"]}])),
        ab("anyOf", json!([{"required": ["b"]}, {"properties": {"a": {"minimum": 5}}, "required": ["a"]}])),
        ab("allOf", json!([{"properties": {"a": {"maximum": 5}}}, {"properties": {"b": {"maxLength": 2}}}])),
        ab("not", json!({"required": ["b"]})),
    ]);
    let either =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    cases.push((either.clone(), every()));
    let mut nullable = either;
    nullable["nullable"] = true.into();
    cases.push((nullable, every()));
    for schema in
        [json!({"x-kubernetes-preserve-unknown-fields": true}), json!({"x-kubernetes-int-or-string": true})]
    {
        let mut required = object(json!({"a": schema}));
        required["required"] = json!(["a"]);
        cases.push((required, vec![json!({"a": null}), json!({"a": 1})]));
    }
    let map = json!({"type": "object", "additionalProperties": text(), "minProperties": 1});
    cases.push((map, vec![json!({"a": null}), json!({"a": null, "b": ""})]));
    let nested = json!({"type": "array", "items": object(json!({"a": text(), "b": {"type": "string", "nullable": true}}))});
    cases.push((nested, vec![json!([{"a": null}]), json!([{"b": null}]), json!([null])]));
    cases
}

#[tokio::test]
async fn schema_check_agrees_with_the_api_server() -> Result<()> {
    let tenant = tenant("schemas", &[]).await?;
    let mut disagreements = Vec::new();
    let (schemas, values): (Vec<Value>, Vec<Vec<Value>>) = cases().into_iter().unzip();
    // One kind has a field for each schema, because the API server takes a moment to serve each new definition.
    let fields = schemas.iter().enumerate().map(|(index, schema)| (format!("f{index}"), schema.clone()));
    let rate = json!({"type": "object", "properties": serde_json::Map::from_iter(fields)});
    tenant.apply(&typed_definition(GROUP, &rate)).await?;
    let policy = |index: usize, value: &Value| {
        let mut policy = typed_policy(GROUP, tenant.name(), "schemas");
        policy["spec"]["rate"] = json!({format!("f{index}"): value});
        policy
    };
    wait::until("the kind is served", LIMIT, || async {
        let mut nothing = typed_policy(GROUP, tenant.name(), "schemas");
        nothing["spec"]["rate"] = json!({});
        let response = dry_run(&tenant, &nothing).await?;
        ensure!(response.is_none(), "{response:?}");
        Ok(())
    })
    .await?;
    for (index, (schema, values)) in schemas.iter().zip(values).enumerate() {
        let outer = json!({"type": "object", "properties": {"rate": schema}});
        let checked = Schema::new(&serde_json::from_value(outer)?);
        for value in values {
            // The value is inside an object, like all values of a patch.
            let mut value = json!({"rate": value});
            normalize(&mut value);
            let theirs = dry_run(&tenant, &policy(index, &value["rate"])).await?;
            let ours = checked.check(&value).err();
            if ours.is_none() != theirs.is_none() {
                disagreements.push(format!("{value} with {schema}: ours {ours:?}, server {theirs:?}"));
            }
        }
    }
    ensure!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    Ok(())
}

/// The API server's error for a new policy, or `None` if the API server would accept the policy. The request is a dry
/// run, so that nothing is stored.
async fn dry_run(tenant: &crate::Tenant<'_>, policy: &Value) -> Result<Option<String>> {
    let path = format!(
        "/apis/{GROUP}/v1/namespaces/{}/typedpolicies?dryRun=All&fieldValidation=Strict",
        tenant.name()
    );
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(policy.to_string().into_bytes())
        .context("building a request")?;
    match tenant.client().request::<Value>(request).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => Ok(Some(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}
