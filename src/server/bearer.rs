//! Tokens that clients show, in a file that is read again as it changes. A file may have several, one on each line: so one takes the
//! place of another without anybody being turned away.

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

use super::follow::follow;
use policy_sync_hub::tasks::announce;

/// How often it is looked whether the file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most bytes of a file.
const SIZE: u64 = 64 << 10;
/// The least bytes of a token: what is shorter is guessed.
const SHORTEST: usize = 16;

/// Why a file has no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// It is too large.
    #[error("{0} has {1} bytes: expected tokens, one a line, of at most {SIZE} bytes in all")]
    Large(PathBuf, u64),
    /// There is none in it.
    #[error("{0} has no token: expected one a line")]
    Empty(PathBuf),
    /// A line is none.
    #[error("{0}:{1}: no token: expected at least {SHORTEST} printable characters without blanks")]
    Line(PathBuf, usize),
}

/// The tokens of a file. Clones have the same.
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

/// The token that a request with these headers shows.
pub(super) fn shown(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The answer to who shows none that is taken, and why: who has none keeps no connection.
pub(super) fn refused(why: impl IntoResponse) -> Response {
    let asks = [(header::WWW_AUTHENTICATE, "Bearer"), (header::CONNECTION, "close")];
    (StatusCode::UNAUTHORIZED, asks, why).into_response()
}

impl Tokens {
    /// Those of the file at `path`.
    ///
    /// # Errors
    ///
    /// Where it has none.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let tokens = Self { path: path.into(), known: watch::channel(Arc::default()).0 };
        tokens.look()?;
        Ok(tokens)
    }

    /// Whether a request with these headers shows one. How long it takes says nothing of how much of one is right.
    #[must_use]
    pub fn are_shown(&self, headers: &HeaderMap) -> bool {
        let Some(token) = shown(headers) else { return false };
        let shown = blake3::hash(token.as_bytes());
        // Hashes are compared in constant time.
        self.known.borrow().iter().fold(false, |is_known, token| is_known | (*token == shown))
    }

    /// Reads the file again as it changes, until `stop`. Where it has no tokens, the last ones stay.
    pub async fn follow(self, stop: CancellationToken) {
        let look = || {
            if self.look()? {
                info!(file = %self.path.display(), "accepting other tokens");
            }
            Ok::<_, TokenError>(())
        };
        let stays = |error: &str| warn!(error, "cannot read new tokens: still accepting the previous ones");
        follow(LOOK_EVERY, stop, look, stays).await;
    }

    /// Reads the file, and says whether it has other tokens than before.
    fn look(&self) -> Result<bool, TokenError> {
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
        announce(&self.known, tokens.into());
        Ok(is_another)
    }
}

#[cfg(test)]
mod tests;
