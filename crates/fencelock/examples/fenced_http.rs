//! A service that refuses a client which was paused for too long, by the header `Fencing-Token`.
//!
//! `cargo run --example fenced_http`; the locks are at `REDIS_URL`, else in a local file.
//!
//! The service keeps its one value in a fenced file, so that it knows the highest token also after a
//! restart. It is small, and speaks only as much HTTP as this example.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
};

use fencelock::{
    FencingToken,
    fenced::{
        Checked,
        file::FencedFile,
        http::{self, HEADER},
    },
};

mod paused;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> paused::Outcome {
    let folder = tempfile::tempdir()?;
    example(&paused::store(), folder.path()).await
}

/// The locks are in `store`, the service keeps its value in `folder`.
pub(crate) async fn example(store: &str, folder: &Path) -> paused::Outcome {
    let locks = fencelock::connect(store).await?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let service = listener.local_addr()?;
    let value = FencedFile::new(folder.join("value"));
    thread::spawn(move || serve(&listener, &value));

    let first = paused::about_to_be_paused(&locks).await?;
    let old = first.fencing_token().ok_or("a native lock has fencing tokens")?;
    assert_eq!(put(service, &[http::value(old)], "drafted")?.status, 204);
    println!("the first holder, {old}, has written, looks at its guard, and is paused");

    let second = paused::next_holder(&locks).await?;
    let new = second.fencing_token().ok_or("a native lock has fencing tokens")?;
    let answer = put(service, &[http::value(new)], "sent")?;
    assert_eq!((answer.status, http::stale(new, answer.status, answer.tokens)), (204, None));
    println!("the second holder, {new}, has the lock and has written");

    let late = put(service, &[http::value(old)], "paid")?;
    println!("the first goes on, and is answered {} {:?}", late.status, late.tokens);
    assert_eq!(http::stale(old, late.status, late.tokens), Some(new));

    // Without a token, or with two, a request is not let through either.
    assert_eq!(put(service, &[], "paid")?.status, 428);
    assert_eq!(put(service, &[http::value(old), http::value(new)], "paid")?.status, 400);
    assert_eq!(std::fs::read(folder.join("value"))?, b"sent");
    println!("the service has what the second wrote");

    second.release().await;
    drop(first);
    locks.close().await;
    Ok(())
}

fn serve(listener: &TcpListener, value: &FencedFile) {
    for stream in listener.incoming().flatten() {
        if let Err(error) = answer(&stream, value) {
            eprintln!("the service could not answer: {error}");
        }
    }
}

/// One request of a connection: note the token and replace the value, or say why not.
fn answer(stream: &TcpStream, value: &FencedFile) -> Result<(), Failure> {
    let request = Message::read(stream)?;
    let (status, highest) = match http::token(&request.tokens) {
        Err(error) => (error.status(), None),
        // Check and write are one step in there.
        Ok(token) => match value.write(token, &request.body)? {
            Checked::Accepted(()) => (204, None),
            Checked::Stale { highest } => (http::STALE, Some(highest)),
        },
    };
    let header = highest.map_or(String::new(), |highest: FencingToken| {
        format!("{HEADER}: {}\r\n", http::value(highest))
    });
    let mut stream = stream;
    // A reason is optional in HTTP.
    write!(stream, "HTTP/1.1 {status} \r\n{header}Content-Length: 0\r\nConnection: close\r\n\r\n")?;
    Ok(())
}

/// What a client does.
fn put(service: SocketAddr, tokens: &[String], body: &str) -> Result<Answer, Failure> {
    let mut stream = TcpStream::connect(service)?;
    write!(stream, "PUT /value HTTP/1.1\r\nHost: example\r\n")?;
    for token in tokens {
        write!(stream, "{HEADER}: {token}\r\n")?;
    }
    write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    let message = Message::read(&stream)?;
    let status = message.start.split(' ').nth(1).ok_or("no status")?.parse()?;
    Ok(Answer { status, tokens: message.tokens })
}

struct Answer {
    status: u16,
    tokens: Vec<String>,
}

/// A request or an answer.
struct Message {
    start: String,
    tokens: Vec<String>,
    body: Vec<u8>,
}

impl Message {
    /// The longest one that is read, line ends included.
    const LIMIT: u64 = 4096;

    fn read(stream: &TcpStream) -> Result<Self, Failure> {
        let mut reader = BufReader::new(stream.take(Self::LIMIT));
        let mut line = || -> Result<String, Failure> {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| "it ends too early".into())
        };
        let start = line()?;
        let (mut tokens, mut length) = (Vec::new(), 0);
        loop {
            let header = line()?;
            let Some((name, value)) = header.split_once(':') else { break };
            if name.eq_ignore_ascii_case(HEADER) {
                tokens.push(value.to_owned());
            } else if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Self { start, tokens, body })
    }
}
