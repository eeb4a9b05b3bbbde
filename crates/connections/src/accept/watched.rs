//! Tracks the phase of a connection from its reads and writes, and from the ends of request and response
//! bodies.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::seats::{Phase, Seat};

/// The stream of a connection, which reports progress to its seat.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    seat: Arc<Seat>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, seat: Arc<Seat>) -> Self {
        Self { stream, seat }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.seat.advance(Phase::Idle, Phase::Head);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.seat.stalls(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.seat.stalls(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        match flushed {
            // hyper flushes the stream once its own buffer is empty.
            Poll::Ready(_) => self.seat.advance(Phase::Flushing, Phase::Idle),
            Poll::Pending => self.seat.stalls(true),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.seat.stalls(shut.is_pending());
        shut
    }
}

/// The body of a request, which reports its end.
#[derive(Debug)]
pub(super) struct Received {
    body: Incoming,
    seat: Arc<Seat>,
}

impl Received {
    pub(super) fn new(body: Incoming, seat: Arc<Seat>) -> Self {
        let received = Self { body, seat };
        received.note();
        received
    }

    fn note(&self) {
        if self.body.is_end_stream() {
            self.seat.advance(Phase::Receiving, Phase::Handling);
        }
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Ready(None) => self.seat.advance(Phase::Receiving, Phase::Handling),
            Poll::Ready(Some(_)) => self.note(),
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    /// Handlers that do not read a body drop it.
    fn drop(&mut self) {
        self.seat.advance(Phase::Receiving, Phase::Handling);
    }
}

/// The body of a response, which reports its end.
#[derive(Debug)]
pub(super) struct Sent {
    body: Body,
    seat: Arc<Seat>,
}

impl Sent {
    pub(super) fn new(body: Body, seat: Arc<Seat>) -> Self {
        Self { body, seat }
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sent {
    /// hyper drops a body once all of it is in its buffer.
    fn drop(&mut self) {
        self.seat.advance(Phase::Sending, Phase::Flushing);
    }
}
