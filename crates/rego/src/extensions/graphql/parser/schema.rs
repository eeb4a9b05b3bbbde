//! Parses definitions of GraphQL types.

use super::super::DocumentError;
use super::super::ast::{
    ArgumentDefinition, CommentGroup, Definition, DirectiveDefinition, EnumValueDefinition, FieldDefinition,
    OperationTypeDefinition, SchemaDefinition, SchemaDocument, Text,
};
use super::super::lexer::Kind;
use super::Parser;

const LOCATIONS: [&str; 19] = [
    "QUERY",
    "MUTATION",
    "SUBSCRIPTION",
    "FIELD",
    "FRAGMENT_DEFINITION",
    "FRAGMENT_SPREAD",
    "INLINE_FRAGMENT",
    "VARIABLE_DEFINITION",
    "SCHEMA",
    "SCALAR",
    "OBJECT",
    "FIELD_DEFINITION",
    "ARGUMENT_DEFINITION",
    "INTERFACE",
    "UNION",
    "ENUM",
    "ENUM_VALUE",
    "INPUT_OBJECT",
    "INPUT_FIELD_DEFINITION",
];

/// A description, and the comments before it.
#[derive(Default)]
struct Description {
    text: Text,
    comment: Option<CommentGroup>,
}

impl Parser<'_> {
    pub(super) fn schema_document(&mut self) -> Result<SchemaDocument, DocumentError> {
        let mut document = SchemaDocument::default();
        while self.peek_kind()? != Kind::End {
            let description = self.description()?;
            if self.peek_kind()? != Kind::Name {
                return Err(DocumentError::Invalid);
            }
            if self.has_text("schema")? {
                document.schema.push(self.schema_definition(description)?);
            } else if self.has_text("directive")? {
                document.directives.push(self.directive_definition(description)?);
            } else if self.has_text("extend")? {
                if !description.text.is_empty() {
                    return Err(DocumentError::Invalid);
                }
                self.extension(&mut document)?;
            } else {
                document.definitions.push(self.definition(description)?);
            }
        }
        document.comment = self.comments()?;
        Ok(document)
    }

    fn description(&mut self) -> Result<Description, DocumentError> {
        if !self.is_text()? {
            return Ok(Description::default());
        }
        let comment = self.comments()?;
        Ok(Description { text: self.next()?.text.into(), comment })
    }

    /// The description of a field, an argument or an enum value. If there is no description, the comments before it are
    /// dropped.
    fn inner_description(&mut self) -> Result<Description, DocumentError> {
        let description = self.description()?;
        Ok(if description.text.is_empty() { Description::default() } else { description })
    }

    fn schema_definition(&mut self, description: Description) -> Result<SchemaDefinition, DocumentError> {
        let after_description = self.keyword("schema")?;
        self.schema_body(description, after_description)
    }

    fn schema_body(
        &mut self,
        description: Description,
        after_description: Option<CommentGroup>,
    ) -> Result<SchemaDefinition, DocumentError> {
        let directives = self.directives(true)?;
        let operation_type = |parser: &mut Self| {
            let comment = parser.comments()?;
            let operation = parser.operation_type()?;
            parser.expect_mark(b':')?;
            Ok(OperationTypeDefinition { operation, of: parser.name()?, comment })
        };
        let (operation_types, end) = self.some(*b"{}", operation_type)?;
        Ok(SchemaDefinition {
            description: description.text,
            directives,
            operation_types,
            before_description: description.comment,
            after_description,
            end,
        })
    }

    fn definition(&mut self, description: Description) -> Result<Definition, DocumentError> {
        let after_description = self.comments()?;
        self.definition_body(description, after_description, false)
    }

    /// The rest of a type's definition, from its keyword on.
    fn definition_body(
        &mut self,
        description: Description,
        after_description: Option<CommentGroup>,
        is_extension: bool,
    ) -> Result<Definition, DocumentError> {
        let keyword = self.expect(Kind::Name)?.text;
        let mut definition = Definition {
            description: description.text,
            name: self.name()?,
            before_description: description.comment,
            after_description,
            ..Definition::default()
        };
        let kind = match keyword.as_str() {
            "scalar" => "SCALAR",
            "type" => "OBJECT",
            "interface" => "INTERFACE",
            "union" => "UNION",
            "enum" => "ENUM",
            "input" => "INPUT_OBJECT",
            _ => return Err(DocumentError::Invalid),
        };
        definition.kind = kind.into();
        if kind == "OBJECT" || kind == "INTERFACE" && !is_extension {
            definition.interfaces = self.interfaces()?;
        }
        // gqlparser accepts variables in the directives of `extend input`, and in no other directives of a schema.
        definition.directives = self.directives(!(kind == "INPUT_OBJECT" && is_extension))?;
        match kind {
            "OBJECT" | "INTERFACE" => {
                (definition.fields, definition.end) = self.some(*b"{}", Self::field_definition)?;
            }
            "UNION" => definition.types = self.union_members()?,
            "ENUM" => (definition.enum_values, definition.end) = self.some(*b"{}", Self::enum_value)?,
            "INPUT_OBJECT" => {
                (definition.fields, definition.end) = self.some(*b"{}", Self::input_field)?;
            }
            _ => {}
        }
        Ok(definition)
    }

    fn extension(&mut self, document: &mut SchemaDocument) -> Result<(), DocumentError> {
        let comment = self.keyword("extend")?;
        if self.has_text("schema")? {
            self.keyword("schema")?;
            let extension = self.schema_body(Description::default(), comment)?;
            let is_empty = extension.directives.is_empty() && extension.operation_types.is_empty();
            document.schema_extensions.push(extension);
            return if is_empty { Err(DocumentError::Invalid) } else { Ok(()) };
        }
        let extension = self.definition_body(Description::default(), comment, true)?;
        let is_empty = extension.directives.is_empty()
            && extension.interfaces.is_empty()
            && extension.fields.is_empty()
            && extension.types.is_empty()
            && extension.enum_values.is_empty();
        document.extensions.push(extension);
        if is_empty { Err(DocumentError::Invalid) } else { Ok(()) }
    }

    fn interfaces(&mut self) -> Result<Vec<Text>, DocumentError> {
        if !self.has_text("implements")? {
            return Ok(Vec::new());
        }
        self.next()?;
        self.separated(b'&', Self::name)
    }

    fn union_members(&mut self) -> Result<Vec<Text>, DocumentError> {
        if self.skip(b'=')? { self.separated(b'|', Self::name) } else { Ok(Vec::new()) }
    }

    /// Items separated by punctuators, optionally with a leading punctuator.
    fn separated(
        &mut self,
        mark: u8,
        mut item: impl FnMut(&mut Self) -> Result<Text, DocumentError>,
    ) -> Result<Vec<Text>, DocumentError> {
        self.skip(mark)?;
        let mut items = vec![item(self)?];
        while self.skip(mark)? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn field_definition(&mut self) -> Result<FieldDefinition, DocumentError> {
        let description = self.inner_description()?;
        let after_description = self.comments()?;
        let name = self.name()?;
        let arguments = self.argument_definitions()?;
        self.expect_mark(b':')?;
        Ok(FieldDefinition {
            description: description.text,
            name,
            arguments,
            default: None,
            of: self.type_reference()?,
            directives: self.directives(true)?,
            before_description: description.comment,
            after_description,
        })
    }

    fn argument_definitions(&mut self) -> Result<Vec<ArgumentDefinition>, DocumentError> {
        let definition = |parser: &mut Self| {
            let FieldDefinition {
                description,
                name,
                default,
                of,
                directives,
                before_description,
                after_description,
                ..
            } = parser.input_field()?;
            Ok(ArgumentDefinition {
                description,
                name,
                default,
                of,
                directives,
                before_description,
                after_description,
            })
        };
        Ok(self.some(*b"()", definition)?.0)
    }

    fn input_field(&mut self) -> Result<FieldDefinition, DocumentError> {
        let description = self.inner_description()?;
        let after_description = self.comments()?;
        let name = self.name()?;
        self.expect_mark(b':')?;
        let of = self.type_reference()?;
        let default = if self.skip(b'=')? { Some(self.value(true)?) } else { None };
        Ok(FieldDefinition {
            description: description.text,
            name,
            arguments: Vec::new(),
            default,
            of,
            directives: self.directives(true)?,
            before_description: description.comment,
            after_description,
        })
    }

    fn enum_value(&mut self) -> Result<EnumValueDefinition, DocumentError> {
        let description = self.inner_description()?;
        let after_description = self.comments()?;
        Ok(EnumValueDefinition {
            description: description.text,
            name: self.name()?,
            directives: self.directives(true)?,
            before_description: description.comment,
            after_description,
        })
    }

    fn directive_definition(
        &mut self,
        description: Description,
    ) -> Result<DirectiveDefinition, DocumentError> {
        let after_description = self.keyword("directive")?;
        self.expect_mark(b'@')?;
        let name = self.name()?;
        let arguments = self.argument_definitions()?;
        let repeatable = self.peek_kind()? == Kind::Name && self.has_text("repeatable")?;
        if repeatable {
            self.next()?;
        }
        self.keyword("on")?;
        let location = |parser: &mut Self| {
            let name = parser.name()?;
            if LOCATIONS.contains(&&*name) { Ok(name) } else { Err(DocumentError::Invalid) }
        };
        Ok(DirectiveDefinition {
            description: description.text,
            name,
            arguments,
            locations: self.separated(b'|', location)?,
            repeatable,
            before_description: description.comment,
            after_description,
        })
    }
}
