//! What some examples have in common: each fails, when what it shows is not so.

use std::{error::Error, io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What an example may fail with.
pub(crate) type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Says that something is so.
pub(crate) fn shown(is_so: bool, what: &str) -> Outcome {
    if !is_so {
        return Err(format!("this is not so: {what}").into());
    }
    println!("{what}");
    Ok(())
}

/// The whole answer to a POST.
#[allow(dead_code)] // Few examples are servers.
pub(crate) async fn post_to(server: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: shown\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map(|_| answer)
}
