//! The TCP socket below a connection.

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use self::options::{acknowledged, set_unsent_limit};

/// A byte stream in both directions.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The socket that carries this stream. `None` for a stream in memory.
    fn socket(&self) -> Option<&TcpStream>;

    /// How many bytes the kernel of the client has received. `None` if the system does not report it.
    fn acknowledged(&self) -> Option<u64> {
        self.socket().and_then(acknowledged)
    }

    /// Limits how many bytes the kernel buffers beyond those that the client's receive window takes.
    fn limit_unsent_data(&self) {
        if let Some(socket) = self.socket() {
            set_unsent_limit(socket);
        }
    }
}

impl Duplex for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

#[cfg(test)]
impl Duplex for tokio::io::DuplexStream {
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

#[cfg(any(target_os = "android", target_os = "linux"))]
mod options {
    use std::sync::LazyLock;

    use nix::{
        getsockopt_impl, libc, setsockopt_impl, sockopt_impl,
        sys::{
            socket::{getsockopt, setsockopt},
            utsname::uname,
        },
    };
    use tokio::net::TcpStream;

    /// The limit of unsent bytes. Smaller values cost throughput.
    const UNSENT: u32 = 32 << 10;

    sockopt_impl!(UnsentLimit, SetOnly, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, u32);

    /// The start of the kernel's `struct tcp_info` (`linux/tcp.h`), to the end of its field `tcpi_bytes_acked`. The kernel
    /// returns as many bytes as the caller has room for. `libc::tcp_info` has this field for some targets only.
    type InfoStart = [u64; 16];

    /// The place of `tcpi_bytes_acked`.
    const BYTES_ACKED: usize = 15;

    sockopt_impl!(Info, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, InfoStart);

    /// Linux has `tcpi_bytes_acked` since version 4.1. `nix` panics if the kernel returns a shorter structure.
    static REPORTS_ACKNOWLEDGED: LazyLock<bool> =
        LazyLock::new(|| uname().is_ok_and(|system| has_version_4_1(&system.release().to_string_lossy())));

    fn has_version_4_1(release: &str) -> bool {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(4), Some(1))
    }

    pub(super) fn acknowledged(socket: &TcpStream) -> Option<u64> {
        if !*REPORTS_ACKNOWLEDGED {
            return None;
        }
        Some(getsockopt(socket, Info).ok()?[BYTES_ACKED])
    }

    pub(super) fn set_unsent_limit(socket: &TcpStream) {
        // Without the option the connection works, with coarser progress.
        let _ = setsockopt(socket, UnsentLimit, &UNSENT);
    }
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
mod options {
    use tokio::net::TcpStream;

    pub(super) fn acknowledged(_socket: &TcpStream) -> Option<u64> {
        None
    }

    pub(super) fn set_unsent_limit(_socket: &TcpStream) {}
}
