use axum::http::HeaderValue;
use policy_sync_testenv::wait;
use tempfile::TempDir;

use super::*;
use policy_sync_api::text::with_causes;

const FIRST: &str = "a-token-of-26-characters-1";
const SECOND: &str = "a-token-of-26-characters-2";

struct File(TempDir);

impl File {
    fn with(bytes: impl AsRef<[u8]>) -> Self {
        let file = Self(TempDir::new().unwrap());
        file.write(bytes);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("token")
    }

    fn write(&self, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(), bytes).unwrap();
    }

    fn fault(&self) -> String {
        let error = Tokens::read(&self.path()).unwrap_err();
        with_causes(&error).replace(&self.path().display().to_string(), "token")
    }
}

fn shows(tokens: &Tokens, header: &str) -> bool {
    tokens.accept(&[(header::AUTHORIZATION, HeaderValue::from_str(header).unwrap())].into_iter().collect())
}

#[test]
fn requests_with_any_of_the_tokens_are_accepted() {
    let file = File::with(format!("{FIRST}\r\n\n  {SECOND}\n"));
    let tokens = Tokens::read(&file.path()).unwrap();
    assert!(!format!("{tokens:?}").contains(FIRST));
    for shown in [format!("Bearer {FIRST}"), format!("bearer {SECOND}"), format!("Bearer  {FIRST}")] {
        assert!(shows(&tokens, &shown), "{shown}");
    }
    for shown in ["", "Bearer", "Bearer ", FIRST, &format!("Basic {FIRST}"), &format!("Bearer {FIRST}x")] {
        assert!(!shows(&tokens, shown), "{shown}");
    }
    assert!(!shows(&tokens, &format!("Bearer {}", &FIRST[..25])));
    assert!(!tokens.accept(&HeaderMap::new()));
}

#[test]
fn invalid_tokens_are_reported_with_their_line() {
    for empty in ["", "\n", " \n\t\n"] {
        assert_eq!(File::with(empty).fault(), "token has no token: expected one token per line");
    }
    let fault = "no token: expected at least 16 printable characters without blanks";
    assert_eq!(File::with("short").fault(), format!("token:1: {fault}"));
    assert_eq!(File::with(format!("{FIRST}\n{SECOND} two\n")).fault(), format!("token:2: {fault}"));
    assert_eq!(File::with("é".repeat(20)).fault(), format!("token:1: {fault}"));
    assert!(File::with([0xff; 20]).fault().starts_with("cannot read token: "));
    let large = "token has 65537 bytes: expected one token per line, at most 65536 bytes in all";
    assert_eq!(File::with("a".repeat(65_537)).fault(), large);
    let file = File::with("");
    fs::remove_file(file.path()).unwrap();
    assert_eq!(file.fault(), "cannot read token: No such file or directory (os error 2)");
}

#[tokio::test]
async fn changed_file_is_read_again_and_invalid_one_ignored() {
    let file = File::with(FIRST);
    let tokens = Tokens::read(&file.path()).unwrap();
    let stop = CancellationToken::new();
    let follows = tokio::spawn(tokens.clone().follow(stop.clone()));
    let until_shown = async |token: &str| {
        let header = format!("Bearer {token}");
        wait::until("the token is taken", Duration::from_secs(60), || async {
            anyhow::ensure!(shows(&tokens, &header), "it is not");
            Ok(())
        })
        .await
        .unwrap();
    };
    file.write(format!("{FIRST}\n{SECOND}"));
    until_shown(SECOND).await;
    until_shown(FIRST).await;
    file.write("");
    tokens.reload().unwrap_err();
    until_shown(FIRST).await;
    file.write(SECOND);
    wait::until("the first is no longer taken", Duration::from_secs(60), || async {
        anyhow::ensure!(!shows(&tokens, &format!("Bearer {FIRST}")), "it is");
        Ok(())
    })
    .await
    .unwrap();
    until_shown(SECOND).await;
    stop.cancel();
    follows.await.unwrap();
}
