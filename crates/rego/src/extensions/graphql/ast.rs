//! The syntax trees of GraphQL documents. Their JSON has the names of gqlparser's structs.
//!
//! Encoding omits null and empty values, as OPA does. Decoding follows Go's `encoding/json`: unknown names are ignored,
//! null becomes the default, and a value of the wrong type is an error.
//!
//! Decoding rejects two things that Go accepts: fields that only validation sets, and names that differ in case.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use regorus::Value;

use super::{DocumentError, LEVELS, TOKENS};

pub(super) type Text = Arc<str>;

/// Counts the nodes and the nesting of a tree in JSON.
#[derive(Default)]
pub(super) struct Decoder {
    nodes: usize,
    level: usize,
}

pub(super) trait Node: Sized {
    /// The node as a value of Rego; `None` if it is null or empty.
    fn encode(&self) -> Option<Value>;

    fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError>;

    /// Whether this node counts as missing in a struct that requires it.
    fn is_missing(&self) -> bool {
        false
    }
}

impl Node for Text {
    fn encode(&self) -> Option<Value> {
        Some(Value::String(self.clone()))
    }

    fn decode(value: &Value, _: &mut Decoder) -> Result<Self, DocumentError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(Self::default()),
            _ => Err(DocumentError::Invalid),
        }
    }
}

impl Node for bool {
    fn encode(&self) -> Option<Value> {
        Some((*self).into())
    }

    fn decode(value: &Value, _: &mut Decoder) -> Result<Self, DocumentError> {
        value.as_bool().copied().map_err(|_| DocumentError::Invalid)
    }
}

impl<T: Node> Node for Option<T> {
    fn encode(&self) -> Option<Value> {
        self.as_ref()?.encode()
    }

    fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
        T::decode(value, decoder).map(Some)
    }
}

impl<T: Node> Node for Box<T> {
    fn encode(&self) -> Option<Value> {
        (**self).encode()
    }

    fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
        T::decode(value, decoder).map(Self::new)
    }
}

impl<T: Node> Node for Vec<T> {
    fn encode(&self) -> Option<Value> {
        let items: Vec<Value> = self.iter().filter_map(Node::encode).collect();
        (!items.is_empty()).then(|| items.into())
    }

    fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
        match value {
            Value::Array(items) => items.iter().map(|item| T::decode(item, decoder)).collect(),
            Value::Set(items) => items.iter().map(|item| T::decode(item, decoder)).collect(),
            _ => Err(DocumentError::Invalid),
        }
    }
}

/// The fields of gqlparser's structs that validation fills in, and positions in the text.
const FILLED_IN: [&str; 6] =
    ["Definition", "ExpectedType", "ObjectDefinition", "ParentDefinition", "Position", "VariableDefinition"];

/// The name in lowercase. Go folds two further characters to ASCII letters.
fn folded(name: &str) -> String {
    name.replace('ſ', "s").replace('\u{212a}', "k").to_ascii_lowercase()
}

macro_rules! nodes {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $key:literal),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(super) struct $name { $(pub(super) $field: $type),* }

        impl $name {
            fn encoded(&self) -> Option<Value> {
                let mut fields = BTreeMap::new();
                $(if let Some(value) = self.$field.encode() {
                    static KEY: LazyLock<Value> = LazyLock::new(|| $key.into());
                    fields.insert(KEY.clone(), value);
                })*
                (!fields.is_empty()).then(|| fields.into())
            }

            fn decoded(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
                let Value::Object(fields) = value else {
                    let is_null = *value == Value::Null;
                    return Err(if is_null { DocumentError::Unsupported("null in an array of a tree") } else { DocumentError::Invalid });
                };
                decoder.nodes += 1;
                if decoder.nodes > TOKENS {
                    return Err(DocumentError::Limit("nodes", TOKENS));
                }
                decoder.level += 1;
                if decoder.level > LEVELS {
                    return Err(DocumentError::Limit("levels", LEVELS));
                }
                let mut node = Self::default();
                for (key, value) in fields.iter() {
                    let Value::String(key) = key else { continue };
                    match &**key {
                        $($key => if *value != Value::Null { node.$field = Node::decode(value, decoder)? })*
                        key => {
                            let is = |name: &str| folded(name) == folded(key);
                            if $(is($key))||* || FILLED_IN.iter().any(|name| is(name)) && *value != Value::Null {
                                return Err(DocumentError::Unsupported("a field of another case or of the validation in a tree"));
                            }
                        }
                    }
                }
                if false $(|| node.$field.is_missing())* {
                    return Err(DocumentError::Unsupported("a tree that lacks a type or a value"));
                }
                decoder.level -= 1;
                Ok(node)
            }
        }
    )* };
}

macro_rules! plain {
    ($($name:ident)*) => { $(
        impl Node for $name {
            fn encode(&self) -> Option<Value> {
                self.encoded()
            }

            fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
                Self::decoded(value, decoder)
            }
        }
    )* };
}

/// A comment that gqlparser writes to JSON, but does not read from JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct EncodeOnlyComment(pub(super) Option<CommentGroup>);

impl Node for EncodeOnlyComment {
    fn encode(&self) -> Option<Value> {
        self.0.encode()
    }

    fn decode(_: &Value, _: &mut Decoder) -> Result<Self, DocumentError> {
        Ok(Self(None))
    }
}

/// The kind of a value: gqlparser's `ValueKind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// `$a`
    #[default]
    Variable,
    /// `1`
    Int,
    /// `1.5`
    Float,
    /// `"a"`
    String,
    /// `"""a"""`
    Block,
    /// `true`
    Boolean,
    /// `null`
    Null,
    /// `A`
    Enum,
    /// `[1]`
    List,
    /// `{a: 1}`
    Object,
}

const VALUE_KINDS: [ValueKind; 10] = [
    ValueKind::Variable,
    ValueKind::Int,
    ValueKind::Float,
    ValueKind::String,
    ValueKind::Block,
    ValueKind::Boolean,
    ValueKind::Null,
    ValueKind::Enum,
    ValueKind::List,
    ValueKind::Object,
];

impl Node for ValueKind {
    fn encode(&self) -> Option<Value> {
        Some((*self as u64).into())
    }

    fn decode(value: &Value, _: &mut Decoder) -> Result<Self, DocumentError> {
        let Value::Number(number) = value else { return Err(DocumentError::Invalid) };
        let kind = number.as_i64().ok_or(DocumentError::Invalid)?;
        let kind = usize::try_from(kind).ok().and_then(|kind| VALUE_KINDS.get(kind));
        kind.copied().ok_or(DocumentError::Unsupported("an unknown kind of value in a tree"))
    }
}

/// One of the selections of a field, an operation or a fragment.
#[derive(Clone, Debug)]
pub(super) enum Selection {
    Field(Field),
    FragmentSpread(FragmentSpread),
    InlineFragment(InlineFragment),
}

impl Node for Selection {
    fn encode(&self) -> Option<Value> {
        match self {
            Self::Field(field) => field.encode(),
            Self::FragmentSpread(spread) => spread.encode(),
            Self::InlineFragment(fragment) => fragment.encode(),
        }
    }

    /// gqlparser decodes each selection as a field if possible.
    fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
        match Field::decode(value, decoder) {
            Ok(field) => Ok(Self::Field(field)),
            Err(DocumentError::Invalid) => {
                Err(DocumentError::Unsupported("a selection of another type in a tree"))
            }
            Err(other) => Err(other),
        }
    }
}

nodes! {
    CommentGroup { list: Vec<Comment> = "List" }
    Comment { value: Text = "Value" }
    QueryDocument {
        operations: Vec<OperationDefinition> = "Operations",
        fragments: Vec<FragmentDefinition> = "Fragments",
        comment: Option<CommentGroup> = "Comment",
    }
    OperationDefinition {
        operation: Text = "Operation",
        name: Text = "Name",
        variables: Vec<VariableDefinition> = "VariableDefinitions",
        directives: Vec<Directive> = "Directives",
        selections: Vec<Selection> = "SelectionSet",
        comment: EncodeOnlyComment = "Comment",
    }
    FragmentDefinition {
        name: Text = "Name",
        variables: Vec<VariableDefinition> = "VariableDefinition",
        condition: Text = "TypeCondition",
        directives: Vec<Directive> = "Directives",
        selections: Vec<Selection> = "SelectionSet",
        comment: EncodeOnlyComment = "Comment",
    }
    VariableDefinition {
        variable: Text = "Variable",
        of: Type = "Type",
        default: Option<InputValue> = "DefaultValue",
        directives: Vec<Directive> = "Directives",
        comment: Option<CommentGroup> = "Comment",
        used: bool = "Used",
    }
    Field {
        alias: Text = "Alias",
        name: Text = "Name",
        arguments: Vec<Argument> = "Arguments",
        directives: Vec<Directive> = "Directives",
        selections: Vec<Selection> = "SelectionSet",
        comment: EncodeOnlyComment = "Comment",
    }
    FragmentSpread {
        name: Text = "Name",
        directives: Vec<Directive> = "Directives",
        comment: EncodeOnlyComment = "Comment",
    }
    InlineFragment {
        condition: Text = "TypeCondition",
        directives: Vec<Directive> = "Directives",
        selections: Vec<Selection> = "SelectionSet",
        comment: EncodeOnlyComment = "Comment",
    }
    Argument {
        name: Text = "Name",
        value: InputValue = "Value",
        comment: Option<CommentGroup> = "Comment",
    }
    Directive {
        name: Text = "Name",
        arguments: Vec<Argument> = "Arguments",
        location: Text = "Location",
    }
    /// A value in a document. A value without a kind counts as missing.
    InputValue {
        raw: Text = "Raw",
        children: Vec<ChildValue> = "Children",
        kind: Option<ValueKind> = "Kind",
        comment: Option<CommentGroup> = "Comment",
        has_default: bool = "ExpectedTypeHasDefault",
    }
    ChildValue {
        name: Text = "Name",
        value: InputValue = "Value",
        comment: Option<CommentGroup> = "Comment",
    }
    /// The name of a type, or a list of another type.
    Type {
        named: Text = "NamedType",
        element: Option<Box<Type>> = "Elem",
        non_null: bool = "NonNull",
    }
    SchemaDocument {
        schema: Vec<SchemaDefinition> = "Schema",
        schema_extensions: Vec<SchemaDefinition> = "SchemaExtension",
        directives: Vec<DirectiveDefinition> = "Directives",
        definitions: Vec<Definition> = "Definitions",
        extensions: Vec<Definition> = "Extensions",
        comment: Option<CommentGroup> = "Comment",
    }
    SchemaDefinition {
        description: Text = "Description",
        directives: Vec<Directive> = "Directives",
        operation_types: Vec<OperationTypeDefinition> = "OperationTypes",
        before_description: Option<CommentGroup> = "BeforeDescriptionComment",
        after_description: Option<CommentGroup> = "AfterDescriptionComment",
        end: Option<CommentGroup> = "EndOfDefinitionComment",
    }
    OperationTypeDefinition {
        operation: Text = "Operation",
        of: Text = "Type",
        comment: Option<CommentGroup> = "Comment",
    }
    Definition {
        kind: Text = "Kind",
        description: Text = "Description",
        name: Text = "Name",
        directives: Vec<Directive> = "Directives",
        interfaces: Vec<Text> = "Interfaces",
        fields: Vec<FieldDefinition> = "Fields",
        types: Vec<Text> = "Types",
        enum_values: Vec<EnumValueDefinition> = "EnumValues",
        built_in: bool = "BuiltIn",
        before_description: Option<CommentGroup> = "BeforeDescriptionComment",
        after_description: Option<CommentGroup> = "AfterDescriptionComment",
        end: Option<CommentGroup> = "EndOfDefinitionComment",
    }
    FieldDefinition {
        description: Text = "Description",
        name: Text = "Name",
        arguments: Vec<ArgumentDefinition> = "Arguments",
        default: Option<InputValue> = "DefaultValue",
        of: Type = "Type",
        directives: Vec<Directive> = "Directives",
        before_description: Option<CommentGroup> = "BeforeDescriptionComment",
        after_description: Option<CommentGroup> = "AfterDescriptionComment",
    }
    ArgumentDefinition {
        description: Text = "Description",
        name: Text = "Name",
        default: Option<InputValue> = "DefaultValue",
        of: Type = "Type",
        directives: Vec<Directive> = "Directives",
        before_description: Option<CommentGroup> = "BeforeDescriptionComment",
        after_description: Option<CommentGroup> = "AfterDescriptionComment",
    }
    EnumValueDefinition {
        description: Text = "Description",
        name: Text = "Name",
        directives: Vec<Directive> = "Directives",
        before_description: Option<CommentGroup> = "BeforeDescriptionComment",
        after_description: Option<CommentGroup> = "AfterDescriptionComment",
    }
    DirectiveDefinition {
        description: Text = "Description",
        name: Text = "Name",
        arguments: Vec<ArgumentDefinition> = "Arguments",
        locations: Vec<Text> = "Locations",
        repeatable: bool = "IsRepeatable",
        before_description: Option<CommentGroup> = "BeforeDescriptionComment",
        after_description: Option<CommentGroup> = "AfterDescriptionComment",
    }
}

plain! {
    CommentGroup Comment QueryDocument OperationDefinition FragmentDefinition VariableDefinition Argument Directive ChildValue
    SchemaDocument SchemaDefinition OperationTypeDefinition Definition FieldDefinition ArgumentDefinition EnumValueDefinition
    DirectiveDefinition Field FragmentSpread InlineFragment
}

impl Node for InputValue {
    fn encode(&self) -> Option<Value> {
        self.encoded()
    }

    fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
        let mut value = Self::decoded(value, decoder)?;
        let kind = *value.kind.get_or_insert_default();
        let digits = value.raw.trim_start_matches('-');
        // Go also parses texts of other forms as numbers.
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
        if matches!(kind, ValueKind::Int | ValueKind::Float) && !is_number {
            return Err(DocumentError::Unsupported("a number of another form in a tree"));
        }
        Ok(value)
    }

    fn is_missing(&self) -> bool {
        self.kind.is_none()
    }
}

impl Node for Type {
    fn encode(&self) -> Option<Value> {
        self.encoded()
    }

    fn decode(value: &Value, decoder: &mut Decoder) -> Result<Self, DocumentError> {
        Self::decoded(value, decoder)
    }

    fn is_missing(&self) -> bool {
        self.named.is_empty() && self.element.is_none()
    }
}

impl Type {
    /// The name of the type of the innermost elements.
    pub(super) fn name(&self) -> &Text {
        match &self.element {
            Some(element) if self.named.is_empty() => element.name(),
            _ => &self.named,
        }
    }

    /// Whether a variable of this type can be used where `other` is expected.
    pub(super) fn is_compatible(&self, other: &Self) -> bool {
        self.is_compatible_if(other, other.non_null)
    }

    /// Like [`is_compatible`](Self::is_compatible). `non_null` replaces the nullability of the outermost type of
    /// `other`.
    pub(super) fn is_compatible_if(&self, other: &Self, non_null: bool) -> bool {
        let elements = match (&self.element, &other.element) {
            (Some(_), None) => false,
            (Some(element), Some(other)) => element.is_compatible(other),
            (None, _) => true,
        };
        self.named == other.named && elements && (self.non_null || !non_null)
    }
}

impl InputValue {
    pub(super) fn is(&self, kind: ValueKind) -> bool {
        self.kind == Some(kind)
    }
}
