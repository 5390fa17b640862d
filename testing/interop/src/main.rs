//! The whole matrix: `testing/interop/run` prints its table, with `--write` it goes into the README. Words
//! choose the peers whose names have one of them.

use fencelock_interop::{
    checks::{Check, Extent},
    peers::{Built, PEERS, Peer},
    report::{self, Row},
    stage::Stage,
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let write = matches!(&words[..], [word] if word == "--write");
    let is_asked =
        |peer: &&Peer| write || words.is_empty() || words.iter().any(|w| peer.name.contains(w));
    let peers: Vec<_> = PEERS.iter().filter(is_asked).collect();
    if peers.is_empty() {
        eprintln!("testing/interop/run takes nothing, --write, or words of the names of peers");
        std::process::exit(64);
    }
    // All at once: they wait nearly all the time, each on a server of its own.
    let rows: Vec<(Row, String)> = std::thread::scope(|scope| {
        let rows: Vec<_> = peers.into_iter().map(|peer| scope.spawn(move || row(peer))).collect();
        rows.into_iter().map(|row| row.join().expect("all checks hold")).collect()
    });
    let server = rows.iter().map(|(_, server)| server.clone()).max().unwrap_or_default();
    let rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
    if write {
        report::write(&server, &rows);
    } else {
        print!("{}", report::table(&server, &rows));
    }
}

/// What one peer gave, and on which server; nothing of the latter when it was skipped.
fn row(peer: &'static Peer) -> (Row, String) {
    if let Built::Skipped(why) = peer.build() {
        return (Row { peer, result: Err(why) }, String::new());
    }
    let stage = Stage::set(peer);
    let driver = stage.driver();
    let version = format!("{} {}", driver.library, driver.version);
    let outcomes = Check::ALL.map(|check| {
        eprintln!("{}: {}", peer.name, check.title());
        check.make(&stage, Extent::WHOLE)
    });
    (Row { peer, result: Ok((version, outcomes.to_vec())) }, stage.server_version())
}
