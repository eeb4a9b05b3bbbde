//! Splits a GraphQL document into tokens, like gqlparser's `lexer` package.

use super::DocumentError;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    End,
    /// A punctuator of one character.
    Mark(u8),
    Spread,
    Name,
    Int,
    Float,
    String,
    BlockString,
    Comment,
}

/// A token. Punctuators have no text.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next token.
    ///
    /// # Errors
    ///
    /// If the token is invalid.
    pub(super) fn token(&mut self) -> Result<Token, DocumentError> {
        self.skip_spaces();
        let start = self.at;
        let Some(byte) = self.byte() else { return Ok(Token { kind: Kind::End, text: String::new() }) };
        let kind = match byte {
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'}' | b'|' => {
                self.at += 1;
                return Ok(Token { kind: Kind::Mark(byte), text: String::new() });
            }
            b'.' if self.rest().starts_with("...") => {
                self.at += 3;
                return Ok(Token { kind: Kind::Spread, text: String::new() });
            }
            b'#' => {
                self.at += self.rest().find(|c: char| c < ' ' && c != '\t').unwrap_or(self.rest().len());
                Kind::Comment
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                self.at += self.rest().find(is_end).unwrap_or(self.rest().len());
                Kind::Name
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b'"' => {
                return if self.rest().starts_with("\"\"\"") { self.block_string() } else { self.string() };
            }
            _ => return Err(DocumentError::Invalid),
        };
        Ok(Token { kind, text: self.text[start..self.at].to_owned() })
    }

    fn skip_spaces(&mut self) {
        loop {
            match self.byte() {
                Some(b'\t' | b' ' | b',' | b'\n' | b'\r') => self.at += 1,
                // The byte order mark.
                Some(0xef) if self.rest().starts_with('\u{feff}') => self.at += 3,
                _ => return,
            }
        }
    }

    fn accept(&mut self, bytes: &[u8]) -> bool {
        let accepted = self.byte().is_some_and(|byte| bytes.contains(&byte));
        self.at += usize::from(accepted);
        accepted
    }

    /// Skips digits, and returns their number.
    fn digits(&mut self) -> usize {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += digits;
        digits
    }

    fn number(&mut self) -> Result<Kind, DocumentError> {
        let valid = |is: bool| if is { Ok(()) } else { Err(DocumentError::Invalid) };
        self.accept(b"-");
        let leading_zero = self.accept(b"0");
        valid((self.digits() == 0) == leading_zero)?;
        let mut kind = Kind::Int;
        if self.accept(b".") {
            kind = Kind::Float;
            valid(self.digits() > 0)?;
        }
        if self.accept(b"eE") {
            kind = Kind::Float;
            self.accept(b"-+");
            valid(self.digits() > 0)?;
        }
        Ok(kind)
    }

    fn string(&mut self) -> Result<Token, DocumentError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let c = self.rest().chars().next().ok_or(DocumentError::Invalid)?;
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(Token { kind: Kind::String, text });
                }
                '\\' => text.push(self.escape()?),
                '\t' | ' '.. => {
                    self.at += c.len_utf8();
                    text.push(c);
                }
                _ => return Err(DocumentError::Invalid),
            }
        }
    }

    fn escape(&mut self) -> Result<char, DocumentError> {
        let bytes = &self.text.as_bytes()[self.at..];
        let c = match bytes.get(1).ok_or(DocumentError::Invalid)? {
            // A surrogate is not a character, even as a part of a pair.
            b'u' if bytes.len() > 6 => {
                let mut digits = bytes[2..6].iter().map(|byte| char::from(*byte).to_digit(16));
                let code = digits.try_fold(0, |code, digit| digit.map(|digit| code << 4 | digit));
                self.at += 6;
                return Ok(char::from_u32(code.ok_or(DocumentError::Invalid)?)
                    .unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            b'"' => '"',
            b'/' => '/',
            b'\\' => '\\',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => return Err(DocumentError::Invalid),
        };
        self.at += 2;
        Ok(c)
    }

    fn block_string(&mut self) -> Result<Token, DocumentError> {
        self.at += 3;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let c = rest.chars().next().ok_or(DocumentError::Invalid)?;
            let quotes = rest.bytes().take_while(|byte| *byte == b'"').count();
            if quotes >= 3 {
                // The last three quotes close the string.
                text.extend(std::iter::repeat_n('"', quotes - 3));
                self.at += quotes;
                return Ok(Token { kind: Kind::BlockString, text: block_string_value(&text) });
            }
            match c {
                '\\' if rest.starts_with("\\\"\"\"") => {
                    text.push_str("\"\"\"");
                    self.at += 4;
                }
                '\r' => {
                    self.at += if rest.starts_with("\r\n") { 2 } else { 1 };
                    text.push('\n');
                }
                '\t' | '\n' | ' '.. => {
                    self.at += c.len_utf8();
                    text.push(c);
                }
                _ => return Err(DocumentError::Invalid),
            }
        }
    }
}

/// The number of leading spaces and tabs; `None` for a blank line.
fn indentation(line: &str) -> Option<usize> {
    line.find(|c| c != ' ' && c != '\t')
}

/// Removes the common indentation, and blank lines at both ends. Unlike in the specification, the first line counts for
/// the indentation.
fn block_string_value(raw: &str) -> String {
    let lines: Vec<&str> = raw.split('\n').collect();
    let common = lines.iter().filter_map(|line| indentation(line)).min();
    let text = |(number, line): (usize, &&'_ str)| match common {
        Some(common) if number > 0 => line.get(common..).unwrap_or_default().to_owned(),
        _ => (*line).to_owned(),
    };
    let lines: Vec<String> = lines.iter().enumerate().map(text).collect();
    let is_text = |line: &String| indentation(line).is_some();
    let Some(start) = lines.iter().position(is_text) else { return String::new() };
    let end = lines.iter().rposition(is_text).unwrap_or(start);
    lines[start..=end].join("\n")
}
