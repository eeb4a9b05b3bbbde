//! Adds the security headers to responses that hyper sends itself, for malformed requests. Such responses bypass the
//! guard.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::guard::HEADERS;

/// The header of a response without body, as hyper sends it for a malformed request.
const EMPTY_BODY: &[u8] = b"\r\ncontent-length: 0\r\n";
/// The start of a response's status line.
const STATUS_LINE_START: &[u8] = b"HTTP/1.";

/// A stream that adds the security headers to responses that hyper sends itself.
#[derive(Debug)]
pub(super) struct WithSecurityHeaders<S> {
    stream: S,
    /// The unwritten rest of a response with added headers.
    rest: Vec<u8>,
}

impl<S> WithSecurityHeaders<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, rest: Vec::new() }
    }
}

impl<S: AsyncWrite + Unpin> WithSecurityHeaders<S> {
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

/// `response` with the security headers, if `response` is complete, has no body and lacks these headers. Responses with
/// a page have the headers already, and no page contains the bytes that end an HTTP header section.
fn add_security_headers(response: &[u8]) -> Option<Vec<u8>> {
    let has = |text: &[u8]| response.windows(text.len()).any(|window| window == text);
    let is_bare =
        response.starts_with(STATUS_LINE_START) && response.ends_with(b"\r\n\r\n") && has(EMPTY_BODY);
    if !is_bare || has(HEADERS[0].0.as_str().as_bytes()) {
        return None;
    }
    let line = response.windows(2).position(|window| window == b"\r\n")? + 2;
    let headers: String = HEADERS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    Some([&response[..line], headers.as_bytes(), &response[line..]].concat())
}

impl<S: AsyncRead + Unpin> AsyncRead for WithSecurityHeaders<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithSecurityHeaders<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_rest(cx))?;
        let Some((first, response)) =
            slices.first().and_then(|first| Some((first, add_security_headers(first)?)))
        else {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        };
        self.rest = response;
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
            let mut near = WithSecurityHeaders::new(near);
            near.write_all(b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
            near.shutdown().await.unwrap();
        });
        let mut response = String::new();
        far.read_to_string(&mut response).await.unwrap();
        writing.await.unwrap();
        let lines: Vec<&str> = response.split("\r\n").collect();
        assert_eq!(lines[0], "HTTP/1.1 431 Request Header Fields Too Large");
        for (name, value) in HEADERS {
            assert!(lines.contains(&&*format!("{name}: {value}")), "{response}");
        }
        assert!(response.ends_with("content-length: 0\r\n\r\n"), "{response}");
    }

    #[test]
    fn other_responses_are_unchanged() {
        let ours = format!("HTTP/1.1 404 Not Found\r\n{}: x\r\ncontent-length: 0\r\n\r\n", HEADERS[0].0);
        let bodies =
            ["HTTP/1.1 431\r\ncontent-length: 0\r\n more", "data: HTTP/1.1 431\r\ncontent-length: 0\r\n\r\n"];
        for response in ["HTTP/1.1 200 OK\r\n\r\n", &*ours, bodies[0], bodies[1], ""] {
            assert_eq!(add_security_headers(response.as_bytes()), None, "{response}");
        }
    }
}
