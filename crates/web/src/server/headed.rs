//! Adds the security headers to responses that hyper sends itself, for malformed requests. These bypass the
//! guard.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::guard::HEADERS;

/// Part of such a response, which has no body.
const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";
/// The start of such a response.
const REFUSAL: &[u8] = b"HTTP/1.";

/// A stream that adds the headers to such responses.
#[derive(Debug)]
pub(super) struct Headed<S> {
    stream: S,
    /// The unwritten rest of a response with added headers.
    rest: Vec<u8>,
}

impl<S> Headed<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, rest: Vec::new() }
    }
}

impl<S: AsyncWrite + Unpin> Headed<S> {
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.rest.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.rest.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

/// `answer` with the headers, if it is a complete response without body and lacks them. Responses of the
/// pages have them already, and no text in the pages contains the end of a head.
fn headed(answer: &[u8]) -> Option<Vec<u8>> {
    let has = |text: &[u8]| answer.windows(text.len()).any(|window| window == text);
    let is_bare = answer.starts_with(REFUSAL) && answer.ends_with(b"\r\n\r\n") && has(EMPTY);
    if !is_bare || has(HEADERS[0].0.as_str().as_bytes()) {
        return None;
    }
    let line = answer.windows(2).position(|window| window == b"\r\n")? + 2;
    let headers: String = HEADERS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    Some([&answer[..line], headers.as_bytes(), &answer[line..]].concat())
}

impl<S: AsyncRead + Unpin> AsyncRead for Headed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Headed<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_rest(cx))?;
        let Some((first, answer)) = slices.first().and_then(|first| Some((first, headed(first)?))) else {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        };
        self.rest = answer;
        // The rest is written before any further data.
        let _ = self.poll_rest(cx)?;
        Poll::Ready(Ok(first.len()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_rest(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_rest(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn hyper_responses_get_the_headers_even_in_small_writes() {
        let (near, mut far) = duplex(7);
        let writing = tokio::spawn(async move {
            let mut near = Headed::new(near);
            near.write_all(b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
            near.shutdown().await.unwrap();
        });
        let mut answer = String::new();
        far.read_to_string(&mut answer).await.unwrap();
        writing.await.unwrap();
        let lines: Vec<&str> = answer.split("\r\n").collect();
        assert_eq!(lines[0], "HTTP/1.1 431 Request Header Fields Too Large");
        for (name, value) in HEADERS {
            assert!(lines.contains(&&*format!("{name}: {value}")), "{answer}");
        }
        assert!(answer.ends_with("content-length: 0\r\n\r\n"), "{answer}");
    }

    #[test]
    fn other_responses_are_unchanged() {
        let ours = format!("HTTP/1.1 404 Not Found\r\n{}: x\r\ncontent-length: 0\r\n\r\n", HEADERS[0].0);
        let bodies =
            ["HTTP/1.1 431\r\ncontent-length: 0\r\n more", "data: HTTP/1.1 431\r\ncontent-length: 0\r\n\r\n"];
        for answer in ["HTTP/1.1 200 OK\r\n\r\n", &*ours, bodies[0], bodies[1], ""] {
            assert_eq!(headed(answer.as_bytes()), None, "{answer}");
        }
    }
}
