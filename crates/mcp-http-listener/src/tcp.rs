//! The TCP socket below a connection.

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

#[cfg(all(test, any(target_os = "android", target_os = "linux")))]
pub(crate) use self::options::tests::limits_unsent_data;
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
    use std::{ffi::OsString, mem::MaybeUninit};

    use nix::{
        getsockopt_impl, libc, setsockopt_impl, sockopt_impl,
        sys::socket::{GetSockOpt, getsockopt, setsockopt, sockopt::GetOsString},
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
    sockopt_impl!(InfoLength, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, OsString, GetOsString<Room>);

    /// Room for as many bytes as [`InfoStart`] has. `nix` returns a string of as many bytes as the kernel wrote.
    struct Room(MaybeUninit<[u8; size_of::<InfoStart>()]>);

    impl AsMut<[u8]> for Room {
        /// Replaces the bytes, because a string of `nix` ends at its first zero, and the kernel may write fewer bytes.
        fn as_mut(&mut self) -> &mut [u8] {
            self.0.write([b'x'; size_of::<InfoStart>()])
        }
    }

    pub(super) fn acknowledged(socket: &TcpStream) -> Option<u64> {
        acknowledged_in(socket, InfoLength)
    }

    /// Reads `tcpi_bytes_acked` if `length` reports that the kernel returns this field.
    ///
    /// Linux has the field since version 4.1, and some emulators return the first bytes only. `nix` panics if it reads more
    /// bytes than the kernel returns.
    fn acknowledged_in(socket: &TcpStream, length: impl GetSockOpt<Val = OsString>) -> Option<u64> {
        if getsockopt(socket, length).ok()?.len() < size_of::<InfoStart>() {
            return None;
        }
        Some(getsockopt(socket, Info).ok()?[BYTES_ACKED])
    }

    pub(super) fn set_unsent_limit(socket: &TcpStream) {
        // Without the option the connection works, with coarser progress.
        let _ = setsockopt(socket, UnsentLimit, &UNSENT);
    }

    #[cfg(test)]
    pub(crate) mod tests {
        use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, net::TcpListener};

        use super::*;

        sockopt_impl!(UnsentLimitOf, GetOnly, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, u32);

        /// Whether the socket has the limit of unsent bytes.
        pub(crate) fn limits_unsent_data(socket: &TcpStream) -> bool {
            getsockopt(socket, UnsentLimitOf).unwrap() == UNSENT
        }

        // The kernel returns four bytes of this option.
        sockopt_impl!(ShortLength, GetOnly, libc::SOL_SOCKET, libc::SO_TYPE, OsString, GetOsString<Room>);

        #[tokio::test]
        async fn acknowledged_bytes_are_read_if_the_kernel_returns_them() {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let connect = TcpStream::connect(listener.local_addr().unwrap());
            let (connected, accepted) = tokio::join!(connect, listener.accept());
            let (mut client, mut server) = (connected.unwrap(), accepted.unwrap().0);
            assert_eq!(getsockopt(&server, ShortLength).unwrap().len(), size_of::<u32>());
            assert_eq!(acknowledged_in(&server, ShortLength), None);
            let before = acknowledged(&server).unwrap();
            server.write_all(&[0; 1000]).await.unwrap();
            client.read_exact(&mut [0; 1000]).await.unwrap();
            // A byte of the client carries the acknowledgement.
            client.write_all(&[1]).await.unwrap();
            server.read_exact(&mut [0; 1]).await.unwrap();
            assert_eq!(acknowledged(&server).unwrap() - before, 1000);
        }
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
