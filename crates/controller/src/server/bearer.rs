//! Bearer tokens from a file, which is read again when it changes. The file has one token per line. With several
//! tokens, an operator can rotate tokens while clients still use the old token.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use blake3::Hash;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::follow;
use policy_sync_hub::tasks::send_if_changed;

/// How often the file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of the file, in bytes.
const SIZE: u64 = 64 << 10;
/// Minimum length of a token, in bytes. A shorter token could be guessed.
const SHORTEST: usize = 16;

/// The file has no valid tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// The file is too large.
    #[error("{0} has {1} bytes: expected one token per line, at most {SIZE} bytes in all")]
    Large(PathBuf, u64),
    /// The file contains no token.
    #[error("{0} has no token: expected one token per line")]
    Empty(PathBuf),
    /// A line is not a valid token.
    #[error("{0}:{1}: no token: expected at least {SHORTEST} printable characters without blanks")]
    Line(PathBuf, usize),
}

/// The accepted tokens. Clones share the tokens.
#[derive(Clone)]
pub struct Tokens {
    path: Arc<Path>,
    known: watch::Sender<Arc<[Hash]>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The bearer token in `headers`.
pub(super) fn presented_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The response to a request without an accepted token. It closes the connection.
pub(super) fn refused(why: impl IntoResponse) -> Response {
    let asks = [(header::WWW_AUTHENTICATE, "Bearer"), (header::CONNECTION, "close")];
    (StatusCode::UNAUTHORIZED, asks, why).into_response()
}

impl Tokens {
    /// Reads the tokens from the file at `path`.
    ///
    /// # Errors
    ///
    /// If the file has no valid tokens.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let tokens = Self { path: path.into(), known: watch::channel(Arc::default()).0 };
        tokens.reload()?;
        Ok(tokens)
    }

    /// Whether `headers` contain an accepted token. The comparison takes constant time.
    #[must_use]
    pub fn accept(&self, headers: &HeaderMap) -> bool {
        let Some(token) = presented_token(headers) else { return false };
        let presented_token = blake3::hash(token.as_bytes());
        // blake3 compares hashes in constant time.
        self.known.borrow().iter().fold(false, |is_known, token| is_known | (*token == presented_token))
    }

    /// Reads the file again when it changes, until `stop`. If the file becomes invalid, the last valid tokens stay
    /// accepted.
    pub async fn follow(self, stop: CancellationToken) {
        let reload = || {
            if self.reload()? {
                info!(file = %self.path.display(), "accepting other tokens");
            }
            Ok::<_, TokenError>(())
        };
        let on_error =
            |error: &str| warn!(error, "cannot read new tokens: still accepting the previous ones");
        follow(POLL_INTERVAL, stop, reload, on_error).await;
    }

    /// Reads the file. Returns whether the tokens have changed.
    fn reload(&self) -> Result<bool, TokenError> {
        let path = || self.path.to_path_buf();
        let unread = |error| TokenError::Read(path(), error);
        let size = fs::metadata(&self.path).map_err(unread)?.len();
        if size > SIZE {
            return Err(TokenError::Large(path(), size));
        }
        let text = fs::read_to_string(&self.path).map_err(unread)?;
        let mut tokens = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let token = line.trim();
            match token.len() {
                0 => {}
                SHORTEST.. if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                    tokens.push(blake3::hash(token.as_bytes()));
                }
                _ => return Err(TokenError::Line(path(), number + 1)),
            }
        }
        if tokens.is_empty() {
            return Err(TokenError::Empty(path()));
        }
        let is_another = self.known.borrow()[..] != tokens[..];
        send_if_changed(&self.known, tokens.into());
        Ok(is_another)
    }
}

#[cfg(test)]
mod tests;
