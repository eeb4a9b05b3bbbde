//! Translates regular expressions from the syntax of Go and RE2 to the syntax of the crate `regex`.
//!
//! The crate matches in the same way but has another syntax: `\d` matches the digits of all scripts, `[a[b]` nests
//! classes, and `a{` is an error. A pattern is translated, or rejected as in Go (<https://pkg.go.dev/regexp/syntax>).

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// The maximum count of a repetition.
const REPEATED: u32 = 1_000;

/// The names of POSIX classes.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// The supported Unicode classes: general categories, and scripts in use.
#[rustfmt::skip]
const CLASSES: [&str; 66] = [
    "C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf",
    "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Cherokee", "Common", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati",
    "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian",
    "Myanmar", "Sinhala", "Tamil", "Telugu", "Thai", "Tibetan",
];

/// A pattern that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatternError {
    /// The pattern is not valid in Go.
    #[error("is not a regular expression of Go: {0}")]
    Syntax(String),
    /// The pattern may be valid in Go, but is not supported here.
    #[error("is not supported: {0}")]
    Unsupported(String),
    /// The compiled pattern exceeds the limit.
    #[error("is too large: compiled, it has more than {0} bytes")]
    TooLarge(usize),
}

/// Compiles `pattern`. `limit` is the maximum size of the program, in bytes.
///
/// # Errors
///
/// Returns an error if Go rejects the pattern, if it is not supported, or if it exceeds the limit.
pub fn compile(pattern: &str, limit: usize) -> Result<Regex, PatternError> {
    let translated = translated(pattern)?;
    RegexBuilder::new(&translated).size_limit(limit).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge(limit),
        // The last line of the error has the reason. The lines before it quote the translated pattern.
        _ => PatternError::Unsupported(
            error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        ),
    })
}

fn syntax(reason: impl Into<String>) -> PatternError {
    PatternError::Syntax(reason.into())
}

/// `pattern` in the syntax of the crate `regex`.
fn translated(pattern: &str) -> Result<String, PatternError> {
    let mut translator = Translator { rest: pattern, text: String::with_capacity(pattern.len() * 2) };
    let mut counts = Counts { outer: Vec::new(), most: 1, last: None };
    let mut after_repetition = false;
    while let Some(char) = translator.next() {
        let mut is_repetition = false;
        match char {
            '\\' => {
                translator.escape()?;
                counts.last = Some(1);
            }
            '[' => {
                translator.class()?;
                counts.last = Some(1);
            }
            '(' => {
                if translator.group()? {
                    counts.open();
                }
            }
            ')' => {
                counts.close()?;
                translator.text.push(')');
            }
            '|' => {
                counts.last = None;
                translator.text.push('|');
            }
            '*' | '+' | '?' => {
                counts.repeat(1)?;
                translator.text.push(char);
                is_repetition = true;
            }
            '{' => match translator.repetition()? {
                Some((repetition, times)) => {
                    counts.repeat(times)?;
                    translator.text.push_str(&repetition);
                    is_repetition = true;
                }
                None => {
                    translator.text.push_str(r"\{");
                    counts.last = Some(1);
                }
            },
            _ => {
                translator.text.push(char);
                counts.last = Some(1);
            }
        }
        if is_repetition {
            if after_repetition {
                return Err(syntax("a repetition is repeated"));
            }
            // `?` after a repetition makes the repetition lazy.
            if let Some(rest) = translator.rest.strip_prefix('?') {
                translator.rest = rest;
                translator.text.push('?');
            }
        }
        after_repetition = is_repetition;
    }
    if counts.outer.is_empty() { Ok(translator.text) } else { Err(syntax("a group is not closed")) }
}

/// How often nested repetitions repeat their content.
struct Counts {
    /// The highest count in each enclosing group.
    outer: Vec<u32>,
    /// The highest count in the current group.
    most: u32,
    /// The count of the last item; `None` if there is nothing to repeat.
    last: Option<u32>,
}

impl Counts {
    fn open(&mut self) {
        self.outer.push(self.most);
        (self.most, self.last) = (1, None);
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let outer = self.outer.pop().ok_or_else(|| syntax("a group is closed that is not open"))?;
        self.last = Some(self.most);
        self.most = self.most.max(outer);
        Ok(())
    }

    fn repeat(&mut self, times: u32) -> Result<(), PatternError> {
        let last = self.last.ok_or_else(|| syntax("there is nothing to repeat"))?;
        // Go does not limit the content of `{0}`.
        let count = if times == 0 { 1 } else { last.saturating_mul(times) };
        if count > REPEATED {
            return Err(syntax(format!("nested repetitions are more than {REPEATED} times")));
        }
        (self.last, self.most) = (Some(count), self.most.max(count));
        Ok(())
    }
}

struct Translator<'p> {
    rest: &'p str,
    text: String,
}

impl Iterator for Translator<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }
}

impl Translator<'_> {
    /// Translates an escape sequence outside of a class, after its `\`.
    fn escape(&mut self) -> Result<(), PatternError> {
        match self.rest.chars().next() {
            Some('Q') => {
                let (literal, rest) = self.rest[1..].split_once(r"\E").unwrap_or((&self.rest[1..], ""));
                // A repetition that follows applies to the last character.
                self.text.push_str(&regex::escape(literal));
                self.rest = rest;
            }
            Some(assertion @ ('A' | 'z')) => {
                self.next();
                self.text.extend(['\\', assertion]);
            }
            Some(boundary @ ('b' | 'B')) => {
                self.next();
                self.text.push_str(&format!(r"(?-u:\{boundary})"));
            }
            _ => match self.several()? {
                Some(class) => self.text.push_str(&format!("[{class}]")),
                None => {
                    let char = self.escaped()?;
                    self.text.push_str(&literal(char));
                }
            },
        }
        Ok(())
    }

    /// Parses a class such as `\d` or `\pL`, after its `\`. Returns its translation inside of brackets, or `None` for
    /// other sequences.
    fn several(&mut self) -> Result<Option<String>, PatternError> {
        let class = match self.rest.chars().next() {
            Some('d') => "0-9",
            Some('D') => "[^0-9]",
            Some('s') => r"\t\n\x0c\r ",
            Some('S') => r"[^\t\n\x0c\r ]",
            Some('w') => "0-9A-Za-z_",
            Some('W') => "[^0-9A-Za-z_]",
            Some(p @ ('p' | 'P')) => {
                self.next();
                let name = self.name_of_class()?;
                let (name, is_negated) =
                    name.strip_prefix('^').map_or((name, p == 'P'), |name| (name, p == 'p'));
                if name.is_empty() || !name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_') {
                    return Err(syntax("a class of Unicode has no valid name"));
                }
                if name != "Any" && !CLASSES.contains(&name) {
                    return Err(PatternError::Unsupported(format!("the class {name} of Unicode")));
                }
                return Ok(Some(if name == "Any" {
                    if is_negated {
                        r"[^\x{0}-\x{10ffff}]".to_owned()
                    } else {
                        r"\x{0}-\x{10ffff}".to_owned()
                    }
                } else {
                    format!(r"\{}{{{name}}}", if is_negated { 'P' } else { 'p' })
                }));
            }
            _ => return Ok(None),
        };
        self.next();
        Ok(Some(class.to_owned()))
    }

    /// The name after `\p`: a letter, or text in braces.
    fn name_of_class(&mut self) -> Result<&str, PatternError> {
        let rest = self.rest;
        let (name, rest) = match rest.strip_prefix('{') {
            Some(braced) => {
                braced.split_once('}').ok_or_else(|| syntax("a class of Unicode is not closed"))?
            }
            None => rest.split_at(rest.chars().next().map_or(0, char::len_utf8)),
        };
        self.rest = rest;
        Ok(name)
    }

    /// Parses an escape sequence of one character, after its `\`.
    fn escaped(&mut self) -> Result<char, PatternError> {
        let Some(char) = self.next() else { return Err(syntax(r"it ends with \")) };
        let invalid = || syntax(format!(r"\{char} is not an escape sequence"));
        Ok(match char {
            'a' => '\u{7}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            // A single digit would be a backreference.
            '1'..='7' if !self.rest.starts_with(|next: char| ('0'..='7').contains(&next)) => {
                return Err(invalid());
            }
            '0'..='7' => {
                let digits =
                    self.rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let octal = format!("{char}{}", &self.rest[..digits]);
                self.rest = &self.rest[digits..];
                u32::from_str_radix(&octal, 8).ok().and_then(char::from_u32).ok_or_else(invalid)?
            }
            'x' => {
                let (digits, rest) = match self.rest.strip_prefix('{') {
                    Some(braced) => braced.split_once('}').ok_or_else(invalid)?,
                    None => self.rest.split_at_checked(2).ok_or_else(invalid)?,
                };
                let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
                self.rest = rest;
                code.and_then(char::from_u32).ok_or_else(invalid)?
            }
            _ if char.is_ascii() && !char.is_ascii_alphanumeric() => char,
            _ => return Err(invalid()),
        })
    }

    /// Translates a class after its `[`.
    fn class(&mut self) -> Result<(), PatternError> {
        let open = || syntax("a class is not closed");
        self.text.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            self.text.push('^');
        }
        let mut is_first = true;
        loop {
            if let Some(rest) = self.rest.strip_prefix(']').filter(|_| !is_first) {
                self.rest = rest;
                self.text.push(']');
                return Ok(());
            }
            is_first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest.find(":]")
            {
                let (name, rest) = self.rest.split_at(end + 2);
                let is_known = POSIX.contains(&name[2..end].strip_prefix('^').unwrap_or(&name[2..end]));
                if !is_known {
                    return Err(syntax(format!("there is no class {name}")));
                }
                self.text.push_str(name);
                self.rest = rest;
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix('\\') {
                let before = std::mem::replace(&mut self.rest, rest);
                if let Some(class) = self.several()? {
                    self.text.push_str(&class);
                    continue;
                }
                self.rest = before;
            }
            let first = self.character().ok_or_else(open)??;
            self.text.push_str(&literal(first));
            // `[a-]` is `a` or `-`.
            if let Some(rest) =
                self.rest.strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with(']'))
            {
                self.rest = rest;
                let last = self.character().ok_or_else(open)??;
                if last < first {
                    return Err(syntax(format!("the range {first}-{last} has no characters")));
                }
                self.text.push('-');
                self.text.push_str(&literal(last));
            }
        }
    }

    /// The next character of a class.
    fn character(&mut self) -> Option<Result<char, PatternError>> {
        match self.next()? {
            '\\' => Some(self.escaped()),
            char => Some(Ok(char)),
        }
    }

    /// Translates the beginning of a group after its `(`. Returns false if only flags are set.
    fn group(&mut self) -> Result<bool, PatternError> {
        let Some(rest) = self.rest.strip_prefix('?') else {
            self.text.push('(');
            return Ok(true);
        };
        if let Some(named) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            let (name, rest) =
                named.split_once('>').ok_or_else(|| syntax("the name of a group is not closed"))?;
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(syntax("a group has no valid name"));
            }
            self.text.push_str(&format!("(?P<{name}>"));
            self.rest = rest;
            return Ok(true);
        }
        let end = rest.find([':', ')']).ok_or_else(|| syntax("a group is not closed"))?;
        let (flags, rest) = rest.split_at(end);
        if !flags.chars().all(|flag| "imsU-".contains(flag)) {
            return Err(syntax("(? does not begin a group that Go supports"));
        }
        let (separator, rest) = rest.split_at(1);
        self.text.push_str(&format!("(?{flags}{separator}"));
        self.rest = rest;
        Ok(separator == ":")
    }

    /// Parses a repetition after its `{`. Returns the repetition and its maximum count, or `None` if the brace is a
    /// literal.
    fn repetition(&mut self) -> Result<Option<(String, u32)>, PatternError> {
        let Some((counts, rest)) = self.rest.split_once('}') else { return Ok(None) };
        let (least, most) = match counts.split_once(',') {
            Some((least, most)) => (least, Some(most)),
            None => (counts, None),
        };
        let is_number = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_digit())
                && (text == "0" || !text.starts_with('0'))
        };
        if !is_number(least) || !most.is_none_or(|most| most.is_empty() || is_number(most)) {
            return Ok(None);
        }
        let count = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let last = most.filter(|most| !most.is_empty()).map_or(count(least), count);
        if count(least) > REPEATED || last > REPEATED || last < count(least) {
            return Err(syntax(format!(
                "the repetition {{{counts}}} is more than {REPEATED} times, or never"
            )));
        }
        self.rest = rest;
        Ok(Some((format!("{{{counts}}}"), last)))
    }
}

/// `char` as a literal, inside and outside of classes.
fn literal(char: char) -> String {
    if char.is_ascii_alphanumeric() { char.to_string() } else { format!(r"\x{{{:x}}}", u32::from(char)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, expected) in [
            (r"^\d+$", "٣٤", false),
            (r"^\d+$", "34", true),
            (r"^\w+$", "müller", false),
            (r"^[\w-]+$", "a-b_C9", true),
            (r"^[^\W\d]$", "a", true),
            (r"^[^\W\d]$", "9", false),
            (r"^\s$", "\u{b}", false),
            (r"^\S$", "\u{b}", true),
            (r"\bü", "aü", true),
            (r"\Bü", "aü", false),
            (r"\bb", "üb", true),
            (r"^\pL{2}$", "éß", true),
            (r"^\p{^Greek}$", "α", false),
            (r"^\P{Greek}$", "a", true),
            (r"^[\pN_]+$", "٣_", true),
            (r"^a{$", "a{", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{2,}$", "aaa", true),
            (r"^a{01}$", "a{01}", true),
            (r"^\Qa.b*\E+$", "a.b**", true),
            (r"^[a[b]$", "[", true),
            (r"^[a[b]]$", "[]", true),
            (r"^[a&&b]$", "&", true),
            (r"^[+--]+$", "+,-", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a-]+$", "a-", true),
            (r"^[[:alpha:]_]+$", "aZ_", true),
            (r"^[[:alpha:]]$", "ü", false),
            (r"^\<\_\-$", "<_-", true),
            (r"^\101\x41\x{e9}$", "AAé", true),
            ("(?i)^ÄB$", "äb", true),
            ("^.$", "\n", false),
            ("(?s)^.$", "\n", true),
            ("a$", "a\n", false),
            ("(?P<n>a)(?:b)", "ab", true),
            ("^}]$", "}]", true),
        ] {
            assert_eq!(compile(pattern, LIMIT).unwrap().is_match(text), expected, "{pattern} {text:?}");
        }
    }

    #[test]
    fn patterns_that_go_rejects_are_rejected() {
        for pattern in [
            "a**",
            "a*+",
            "a+??",
            "a{2}{3}",
            "*",
            "(",
            ")",
            "[",
            "[b-a]",
            r"\1",
            r"\8",
            r"\E",
            r"\u0041",
            r"\h",
            r"\",
            r"\x{110000}",
            "a{1001}",
            "a{2,1}",
            "(?x)a",
            "(?=a)",
            "(?u:a)",
            r"[\b]",
            "[[:nothing:]]",
            r"\C",
            r"[a-\d]",
            r"\é",
            "(a{10}){101}",
            "(a{0,1000}){2}",
            "a|*",
            "(*)",
            "(?P<n.x>a)",
            "[[:^^alpha:]]",
        ] {
            let found = compile(pattern, LIMIT);
            assert!(matches!(found, Err(PatternError::Syntax(_))), "{pattern}: {found:?}");
        }
    }

    #[test]
    fn patterns_that_only_go_accepts_are_unsupported() {
        for pattern in
            [r"\p{Nothing}", r"\p{Emoji}", r"\p{Lowercase}", "(?P<1a>a)", "(?P<n>a)(?P<n>b)", "a(?s){2}"]
        {
            let found = compile(pattern, LIMIT);
            assert!(matches!(found, Err(PatternError::Unsupported(_))), "{pattern}: {found:?}");
        }
        assert!(compile("(a{1000}){0}", LIMIT).is_ok());
        for class in CLASSES {
            assert!(compile(&format!(r"\p{{{class}}}"), LIMIT).is_ok(), "{class}");
        }
    }

    #[test]
    fn too_large_pattern_is_rejected() {
        assert!(compile("^.{1,253}$", LIMIT).is_ok());
        let found = compile(r"^(\pL{1,100}){1,10}$", LIMIT).unwrap_err();
        assert_eq!(found, PatternError::TooLarge(LIMIT));
    }
}
