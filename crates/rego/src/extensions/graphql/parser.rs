//! Parses GraphQL documents like gqlparser's `parser` package. Deviations from the specification, and the places of
//! comments in the tree, are those of gqlparser.

mod query;
mod schema;

use super::ast::{Argument, ChildValue, Comment, CommentGroup, Directive, InputValue, QueryDocument};
use super::ast::{SchemaDocument, Text, Type, ValueKind};
use super::lexer::{Kind, Lexer, Token};
use super::{BYTES, DocumentError, LEVELS, TOKENS};

/// Parses a document with operations and fragments.
///
/// # Errors
///
/// If the document is invalid or exceeds a limit.
pub(super) fn query(text: &str) -> Result<QueryDocument, DocumentError> {
    Parser::new(text)?.query_document()
}

/// Parses a document with definitions of types.
///
/// # Errors
///
/// If the document is invalid or exceeds a limit.
pub(super) fn schema(text: &str) -> Result<SchemaDocument, DocumentError> {
    Parser::new(text)?.schema_document()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    peeked: Option<Token>,
    /// The comments before the peeked token.
    comment: Option<CommentGroup>,
    /// The number of tokens read, including comments.
    tokens: usize,
    /// The number of selection sets, values and types that enclose the current token.
    level: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, DocumentError> {
        if text.len() > BYTES {
            return Err(DocumentError::Limit("bytes", BYTES));
        }
        Ok(Self { lexer: Lexer::new(text), peeked: None, comment: None, tokens: 0, level: 0 })
    }

    fn read(&mut self) -> Result<Token, DocumentError> {
        self.tokens += 1;
        if self.tokens > TOKENS {
            return Err(DocumentError::Limit("tokens", TOKENS));
        }
        self.lexer.token()
    }

    fn peek(&mut self) -> Result<&Token, DocumentError> {
        if self.peeked.is_none() {
            let mut token = self.read()?;
            let mut comments = Vec::new();
            while token.kind == Kind::Comment {
                comments.push(Comment { value: token.text.into() });
                token = self.read()?;
            }
            if !comments.is_empty() {
                self.comment = Some(CommentGroup { list: comments });
            }
            self.peeked = Some(token);
        }
        self.peeked.as_ref().ok_or(DocumentError::Invalid)
    }

    fn next(&mut self) -> Result<Token, DocumentError> {
        self.peek()?;
        self.comment = None;
        self.peeked.take().ok_or(DocumentError::Invalid)
    }

    fn peek_kind(&mut self) -> Result<Kind, DocumentError> {
        Ok(self.peek()?.kind)
    }

    /// Whether the next token is the punctuator `mark`.
    fn at(&mut self, mark: u8) -> Result<bool, DocumentError> {
        Ok(self.peek_kind()? == Kind::Mark(mark))
    }

    /// Whether the next token has this text. As in gqlparser, the token may be a string.
    fn has_text(&mut self, text: &str) -> Result<bool, DocumentError> {
        Ok(self.peek()?.text == text)
    }

    fn is_text(&mut self) -> Result<bool, DocumentError> {
        Ok(matches!(self.peek_kind()?, Kind::String | Kind::BlockString))
    }

    /// The comments before the next token.
    fn comments(&mut self) -> Result<Option<CommentGroup>, DocumentError> {
        self.peek()?;
        Ok(self.comment.clone())
    }

    fn skip(&mut self, mark: u8) -> Result<bool, DocumentError> {
        let is = self.at(mark)?;
        if is {
            self.next()?;
        }
        Ok(is)
    }

    fn expect(&mut self, kind: Kind) -> Result<Token, DocumentError> {
        if self.peek_kind()? == kind { self.next() } else { Err(DocumentError::Invalid) }
    }

    fn expect_mark(&mut self, mark: u8) -> Result<(), DocumentError> {
        self.expect(Kind::Mark(mark)).map(drop)
    }

    /// Parses this keyword, and returns the comments before it.
    fn keyword(&mut self, keyword: &str) -> Result<Option<CommentGroup>, DocumentError> {
        let comments = self.comments()?;
        if self.expect(Kind::Name)?.text == keyword { Ok(comments) } else { Err(DocumentError::Invalid) }
    }

    fn name(&mut self) -> Result<Text, DocumentError> {
        Ok(self.expect(Kind::Name)?.text.into())
    }

    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, DocumentError>,
    ) -> Result<T, DocumentError> {
        self.level += 1;
        if self.level > LEVELS {
            return Err(DocumentError::Limit("levels", LEVELS));
        }
        let parsed = parse(self)?;
        self.level -= 1;
        Ok(parsed)
    }

    /// The items between two punctuators, and the comments before the second punctuator. Without the first punctuator,
    /// there are no items.
    fn items<T>(
        &mut self,
        [start, end]: [u8; 2],
        mut item: impl FnMut(&mut Self) -> Result<T, DocumentError>,
    ) -> Result<(Vec<T>, Option<CommentGroup>), DocumentError> {
        let mut items = Vec::new();
        if !self.skip(start)? {
            return Ok((items, None));
        }
        while !self.at(end)? {
            items.push(item(self)?);
        }
        let comments = self.comments()?;
        self.next()?;
        Ok((items, comments))
    }

    /// Like [`items`](Self::items), with at least one item.
    fn some<T>(
        &mut self,
        marks: [u8; 2],
        item: impl FnMut(&mut Self) -> Result<T, DocumentError>,
    ) -> Result<(Vec<T>, Option<CommentGroup>), DocumentError> {
        let has_marks = self.at(marks[0])?;
        let (items, comments) = self.items(marks, item)?;
        if has_marks && items.is_empty() { Err(DocumentError::Invalid) } else { Ok((items, comments)) }
    }

    fn arguments(&mut self, is_const: bool) -> Result<Vec<Argument>, DocumentError> {
        let argument = |parser: &mut Self| {
            let comment = parser.comments()?;
            let name = parser.name()?;
            parser.expect_mark(b':')?;
            Ok(Argument { name, value: parser.value(is_const)?, comment })
        };
        Ok(self.some(*b"()", argument)?.0)
    }

    fn directives(&mut self, is_const: bool) -> Result<Vec<Directive>, DocumentError> {
        let mut directives = Vec::new();
        while self.skip(b'@')? {
            let name = self.name()?;
            let arguments = self.arguments(is_const)?;
            directives.push(Directive { name, arguments, location: Text::default() });
        }
        Ok(directives)
    }

    fn value(&mut self, is_const: bool) -> Result<InputValue, DocumentError> {
        let comment = self.comments()?;
        let token = self.peek()?;
        let kind = match token.kind {
            Kind::Mark(b'[') => return self.list(is_const, comment),
            Kind::Mark(b'{') => return self.object(is_const, comment),
            Kind::Mark(b'$') if !is_const => {
                let raw = self.variable()?;
                let kind = Some(ValueKind::Variable);
                return Ok(InputValue { raw, kind, ..InputValue::default() });
            }
            Kind::Int => ValueKind::Int,
            Kind::Float => ValueKind::Float,
            Kind::String => ValueKind::String,
            Kind::BlockString => ValueKind::Block,
            Kind::Name => match token.text.as_str() {
                "true" | "false" => ValueKind::Boolean,
                "null" => ValueKind::Null,
                _ => ValueKind::Enum,
            },
            Kind::End | Kind::Mark(_) | Kind::Spread | Kind::Comment => return Err(DocumentError::Invalid),
        };
        let raw = self.next()?.text.into();
        Ok(InputValue { raw, kind: Some(kind), ..InputValue::default() })
    }

    fn list(&mut self, is_const: bool, comment: Option<CommentGroup>) -> Result<InputValue, DocumentError> {
        let item =
            |parser: &mut Self| Ok(ChildValue { value: parser.value(is_const)?, ..ChildValue::default() });
        let children = self.nested(|parser| parser.items(*b"[]", item))?.0;
        Ok(InputValue { children, kind: Some(ValueKind::List), comment, ..InputValue::default() })
    }

    fn object(&mut self, is_const: bool, comment: Option<CommentGroup>) -> Result<InputValue, DocumentError> {
        let field = |parser: &mut Self| {
            let comment = parser.comments()?;
            let name = parser.name()?;
            parser.expect_mark(b':')?;
            Ok(ChildValue { name, value: parser.value(is_const)?, comment })
        };
        let children = self.nested(|parser| parser.items(*b"{}", field))?.0;
        Ok(InputValue { children, kind: Some(ValueKind::Object), comment, ..InputValue::default() })
    }

    fn variable(&mut self) -> Result<Text, DocumentError> {
        self.expect_mark(b'$')?;
        self.name()
    }

    fn type_reference(&mut self) -> Result<Type, DocumentError> {
        let mut of = Type::default();
        if self.skip(b'[')? {
            of.element = Some(Box::new(self.nested(Self::type_reference)?));
            self.expect_mark(b']')?;
        } else {
            of.named = self.name()?;
        }
        of.non_null = self.skip(b'!')?;
        Ok(of)
    }
}
