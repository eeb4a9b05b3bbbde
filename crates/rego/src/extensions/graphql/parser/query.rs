//! Parses GraphQL operations and fragments.

use super::super::DocumentError;
use super::super::ast::{
    EncodeOnlyComment, Field, FragmentDefinition, FragmentSpread, InlineFragment, OperationDefinition,
    QueryDocument, Selection, Text, VariableDefinition,
};
use super::super::lexer::Kind;
use super::Parser;

impl Parser<'_> {
    pub(super) fn query_document(&mut self) -> Result<QueryDocument, DocumentError> {
        let mut document = QueryDocument::default();
        loop {
            match self.peek_kind()? {
                Kind::End => return Ok(document),
                Kind::Name if self.has_text("fragment")? => document.fragments.push(self.fragment()?),
                Kind::Name | Kind::Mark(b'{') => document.operations.push(self.operation()?),
                _ => return Err(DocumentError::Invalid),
            }
        }
    }

    fn operation(&mut self) -> Result<OperationDefinition, DocumentError> {
        if self.at(b'{')? {
            let selections = self.selections()?;
            return Ok(OperationDefinition {
                operation: "query".into(),
                selections,
                ..OperationDefinition::default()
            });
        }
        let comment = EncodeOnlyComment(self.comments()?);
        let operation = self.operation_type()?;
        let name = if self.peek_kind()? == Kind::Name { self.name()? } else { Text::default() };
        Ok(OperationDefinition {
            operation,
            name,
            variables: self.variable_definitions()?,
            directives: self.directives(false)?,
            selections: self.selections()?,
            comment,
        })
    }

    pub(super) fn operation_type(&mut self) -> Result<Text, DocumentError> {
        let token = self.next()?;
        match token.text.as_str() {
            "query" | "mutation" | "subscription" => Ok(token.text.into()),
            _ => Err(DocumentError::Invalid),
        }
    }

    fn variable_definitions(&mut self) -> Result<Vec<VariableDefinition>, DocumentError> {
        let definition = |parser: &mut Self| {
            let comment = parser.comments()?;
            let variable = parser.variable()?;
            parser.expect_mark(b':')?;
            let of = parser.type_reference()?;
            let default = if parser.skip(b'=')? { Some(parser.value(true)?) } else { None };
            let directives = parser.directives(false)?;
            Ok(VariableDefinition { variable, of, default, directives, comment, used: false })
        };
        Ok(self.some(*b"()", definition)?.0)
    }

    fn selections(&mut self) -> Result<Vec<Selection>, DocumentError> {
        if !self.at(b'{')? {
            return Err(DocumentError::Invalid);
        }
        Ok(self.nested(|parser| parser.some(*b"{}", Self::selection))?.0)
    }

    fn selection(&mut self) -> Result<Selection, DocumentError> {
        let comment = EncodeOnlyComment(self.comments()?);
        if self.peek_kind()? == Kind::Spread {
            self.next()?;
            return self.spread(comment);
        }
        let alias = self.name()?;
        let name = if self.skip(b':')? { self.name()? } else { alias.clone() };
        let arguments = self.arguments(false)?;
        let directives = self.directives(false)?;
        let selections = if self.at(b'{')? { self.selections()? } else { Vec::new() };
        Ok(Selection::Field(Field { alias, name, arguments, directives, selections, comment }))
    }

    fn spread(&mut self, comment: EncodeOnlyComment) -> Result<Selection, DocumentError> {
        let is_on = self.has_text("on")?;
        if self.peek_kind()? == Kind::Name && !is_on {
            let name = self.name()?;
            let directives = self.directives(false)?;
            return Ok(Selection::FragmentSpread(FragmentSpread { name, directives, comment }));
        }
        let condition = if is_on {
            self.next()?;
            self.name()?
        } else {
            Text::default()
        };
        let directives = self.directives(false)?;
        let selections = self.selections()?;
        Ok(Selection::InlineFragment(InlineFragment { condition, directives, selections, comment }))
    }

    fn fragment(&mut self) -> Result<FragmentDefinition, DocumentError> {
        let comment = EncodeOnlyComment(self.keyword("fragment")?);
        if self.has_text("on")? {
            return Err(DocumentError::Invalid);
        }
        let name = self.name()?;
        let variables = self.variable_definitions()?;
        self.keyword("on")?;
        Ok(FragmentDefinition {
            name,
            variables,
            condition: self.name()?,
            directives: self.directives(false)?,
            selections: self.selections()?,
            comment,
        })
    }
}
