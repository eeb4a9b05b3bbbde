//! Finds comments with metadata in the text of a module.

use crate::parentheses::token_end;

/// A comment with metadata: consecutive comments from `# METADATA` on.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    /// The line of `# METADATA`, from 1.
    pub(super) line: u32,
    /// The YAML on the lines after `# METADATA`.
    pub(super) yaml: String,
}

/// The blocks of `text`. As in OPA, each comment of a block begins a line.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // The line on which a comment would continue the last block.
    let mut next = None;
    for (line, comment) in comments(text) {
        if comment.trim().starts_with("METADATA") {
            blocks.push(Block { line, yaml: String::new() });
            next = Some(line + 1);
        } else if next == Some(line)
            && let Some(block) = blocks.last_mut()
        {
            block.yaml.push_str(comment.strip_prefix(' ').unwrap_or(comment));
            block.yaml.push('\n');
            next = Some(line + 1);
        } else {
            next = None;
        }
    }
    blocks
}

/// The comments at the start of lines, with their line numbers from 1 and without `#`.
fn comments(text: &str) -> Vec<(u32, &str)> {
    let (mut comments, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(first) = text[at..].chars().next() {
        let end = token_end(text, at);
        let token = &text[at..end];
        if first == '#' && (at == 0 || text[..at].ends_with('\n')) {
            let comment = &token[1..];
            comments.push((line, comment.strip_suffix('\r').unwrap_or(comment)));
        }
        line += u32::try_from(token.matches('\n').count()).unwrap_or(u32::MAX);
        at = end;
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_at_a_gap_and_at_the_next_block() {
        let text = "# METADATA\n# title: a\n#  b: c\r\n\n# other\npackage a\n#METADATA of b\n#x\n  # y\n# METADATA\n# METADATA 2\n# z\n";
        let block = |line, yaml: &str| Block { line, yaml: yaml.to_owned() };
        let expected = [block(1, "title: a\n b: c\n"), block(7, "x\n"), block(10, ""), block(11, "z\n")];
        assert_eq!(blocks(text), expected);
    }

    #[test]
    fn strings_have_no_comments() {
        let text =
            "package a\np := `\n# METADATA\n`\nq := \"# METADATA\" # METADATA\nr := \"\\\"\n# METADATA\n";
        let lines: Vec<u32> = blocks(text).iter().map(|block| block.line).collect();
        assert_eq!(lines, [7]);
    }
}
