//! A subset of CEL as OCM's agent evaluates it: the standard macros and operators, the standard functions `size`
//! and `string`, and the extensions `substring` and `join`. Text is counted in characters.

use std::collections::HashMap;
use std::sync::Arc;

use cel::extractors::This;
use cel::objects::{Key, Map};
use cel::{Context, ExecutionError, FunctionContext, Program, Value as Cel};
use serde_json::Value;

type Result<T> = std::result::Result<T, ExecutionError>;

/// Evaluates an expression with a boolean result.
pub fn boolean(expression: &str, object: &Value) -> std::result::Result<bool, String> {
    match evaluate(expression, object, None)? {
        Cel::Bool(result) => Ok(result),
        other => Err(format!("expected bool result, got {:?}", other.type_of())),
    }
}

/// Evaluates an expression with a string result. The variable `result` holds the result of the rule's conditions.
pub fn text(expression: &str, object: &Value, result: bool) -> std::result::Result<String, String> {
    match evaluate(expression, object, Some(result))? {
        Cel::String(text) => Ok(text.to_string()),
        other => {
            Err(format!("expected message expression to have a string result, got {:?}", other.type_of()))
        }
    }
}

fn evaluate(expression: &str, object: &Value, result: Option<bool>) -> std::result::Result<Cel, String> {
    let program = Program::compile(expression).map_err(|error| error.to_string())?;
    let mut context = Context::empty();
    add_functions(&mut context).map_err(|error| error.to_string())?;
    context.add_variable_from_value("object", value(object));
    if let Some(result) = result {
        context.add_variable_from_value("result", result);
    }
    program.execute(&context).map_err(|error| error.to_string())
}

/// Defines the functions of this crate in place of those of the crate `cel`, whose `size` counts bytes.
fn add_functions(context: &mut Context<'_, '_>) -> std::result::Result<(), cel::DeclarationError> {
    context.add_function("size", size)?;
    context.add_function("string", string)?;
    context.add_function("substring", substring)?;
    context.add_function("join", join)
}

/// Converts JSON to CEL. All integers become `int`, even positive integers.
fn value(json: &Value) -> Cel {
    match json {
        Value::Null => Cel::Null,
        Value::Bool(boolean) => Cel::Bool(*boolean),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Cel::Int(integer),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(value).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (Key::from(name.clone()), value(field)));
            Cel::Map(Map { map: Arc::new(fields.collect::<HashMap<Key, Cel>>()) })
        }
    }
}

fn size(context: &FunctionContext<'_, '_>, This(this): This<Cel>) -> Result<i64> {
    let size = match &this {
        Cel::String(text) => text.chars().count(),
        Cel::List(items) => items.len(),
        Cel::Map(fields) => fields.map.len(),
        other => return Err(context.error(format!("no such overload: size({:?})", other.type_of()))),
    };
    i64::try_from(size).map_err(|error| context.error(error))
}

fn string(context: &FunctionContext<'_, '_>, This(this): This<Cel>) -> Result<Cel> {
    let text = match &this {
        Cel::String(text) => text.to_string(),
        Cel::Int(integer) => integer.to_string(),
        Cel::Float(double) => double.to_string(),
        Cel::Bool(boolean) => boolean.to_string(),
        other => return Err(context.error(format!("no such overload: string({:?})", other.type_of()))),
    };
    Ok(Cel::String(Arc::new(text)))
}

fn substring(
    context: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    start: i64,
    end: i64,
) -> Result<Cel> {
    let outside = || context.error(format!("index out of range: {start}, {end}"));
    let at = |index: i64| {
        let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        ends.nth(usize::try_from(index).ok()?)
    };
    let range = at(start).ok_or_else(outside)?..at(end).ok_or_else(outside)?;
    text.get(range).map(|part| Cel::String(Arc::new(part.to_owned()))).ok_or_else(outside)
}

fn join(
    context: &FunctionContext<'_, '_>,
    This(items): This<Arc<Vec<Cel>>>,
    separator: Arc<String>,
) -> Result<Cel> {
    let mut texts: Vec<&str> = Vec::new();
    for item in items.iter() {
        match item {
            Cel::String(text) => texts.push(text),
            other => return Err(context.error(format!("no such overload: join of {:?}", other.type_of()))),
        }
    }
    Ok(Cel::String(Arc::new(texts.join(&separator))))
}

#[cfg(test)]
mod tests;
