use super::*;

fn joined(words: &[&str], index: usize) -> (Vec<String>, usize, String) {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let BashWords { words, index, before } = BashWords::joined(&words, index);
    (words.into_iter().map(|word| word.into_string().unwrap()).collect(), index, before)
}

#[test]
fn words_that_bash_splits_are_joined() {
    let typed = ["policy-sync", "--context", "=", "prod", ":", "eu", "status", "-o", "w"];
    let words = ["policy-sync", "--context=prod:eu", "status", "-o", "w"].map(str::to_owned).to_vec();
    assert_eq!(joined(&typed, 8), (words.clone(), 4, String::new()));
    // The text of the word at the cursor may continue after the cursor.
    assert_eq!(joined(&typed, 5), (words.clone(), 1, "--context=prod:".to_owned()));
    assert_eq!(joined(&["policy-sync", "--output", "=", "w"], 3).2, "--output=");
}

#[test]
fn word_at_the_cursor_is_not_joined_with_later_words() {
    // If the user has not started the word after a `=`, the script passes an empty word in place of the `=`.
    assert_eq!(joined(&["policy-sync", "--output", ""], 2).1, 2);
    assert_eq!(joined(&["policy-sync", "status", "", "-n", "shop"], 2), {
        let words = ["policy-sync", "status", "", "-n", "shop"].map(str::to_owned).to_vec();
        (words, 2, String::new())
    });
    assert_eq!(joined(&[], 0), (Vec::new(), 0, String::new()));
    assert_eq!(joined(&["="], 0), (vec!["=".to_owned()], 0, String::new()));
}
