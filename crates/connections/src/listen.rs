//! Opens listening sockets.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// The backlog of listening sockets. An API server may open many connections at once, one for each concurrent review.
const BACKLOG: i32 = 1_024;

/// Listens on `address`. `[::]` means IPv4 and IPv6, or only IPv4 if the machine has no IPv6.
///
/// # Errors
///
/// If the address is in use, not permitted, or not an address of this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    match bind(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && !is_unusable(&error) => bind(ipv4),
        bound => bound,
    }
}

/// Whether the address exists but cannot be used.
fn is_unusable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // The system's default may be IPv6 only.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests;
