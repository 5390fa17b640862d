//! Over TLS, with nothing but a URL: what it needs is in it.

use fencelock_testkit::{Authority, RedisServer};

use crate::support::Bench;

#[test]
fn every_command_works_over_tls_with_a_certificate_on_both_sides() {
    let authority = Authority::new();
    let server = RedisServer::builder().tls(&authority.issue(), Some(&authority)).start();
    let ours = authority.issue();
    let files = format!(
        "?ca={}&cert={}&key={}",
        authority.file().display(),
        ours.certificate.display(),
        ours.key.display()
    );
    let url = format!("{}{files}", server.tls_url());
    let bench = Bench::new();
    // A nested call has all it needs: paths are no secrets.
    let shows = "echo $FENCELOCK_STORE; exec \"$0\" show job";
    let nested = [env!("CARGO_BIN_EXE_fencelock")];
    let words = [&["run", "job", "--store", &url, "--", "sh", "-c", shows][..], &nested].concat();
    let ended = bench.run(words);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.stdout.lines().next(), Some(&url[..]), "{ended:?}");
    let bench = bench.set("FENCELOCK_STORE", &url);
    let token = bench.acquire(&["job", "--ttl", "60s"]);
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
    assert_eq!(bench.run(["show", "job"]).code, 0);
    assert!(bench.run(["ls"]).stdout.contains("job"));
    assert_eq!(bench.run(["renew", "job", "--token", &token]).code, 0);
    assert_eq!(bench.run(["release", "job", "--token", &token]).code, 0);
    // Without our certificate nothing works, and it is said which is missing.
    let url = format!("{}?ca={}", server.tls_url(), authority.file().display());
    let ended = bench.run(["run", "job", "-n", "--store", &url, "--", "true"]);
    ended.assert_refused(77, &["?cert=/path&key=/path"]);
}

#[test]
fn a_certificate_that_is_not_trusted_is_a_setting_that_is_wrong() {
    let authority = Authority::new();
    let server = RedisServer::builder().tls(&authority.issue(), None).start();
    let bench = Bench::new();
    let words = ["run", "job", "-n", "--store", &server.tls_url(), "--", "true"];
    bench.run(words).assert_refused(64, &["does not trust", "?ca=/path"]);
    let url = format!("{}?danger_accept_invalid_certificates=true", server.tls_url());
    assert_eq!(bench.run(["run", "job", "-n", "--store", &url, "--", "true"]).code, 0);
    // Also when it stands in the environment, which is a file's fault.
    let bench = bench.set("FENCELOCK_STORE", &server.tls_url());
    let ended = bench.run(["run", "job", "-n", "--", "true"]);
    ended.assert_refused(78, &["does not trust"]);
}

#[test]
fn what_is_to_be_known_of_a_store_is_a_line_for_those_who_asked() {
    let server = RedisServer::builder().acl_user("app", "on >p resetchannels ~* +@all").start();
    let bench = Bench::new().set("FENCELOCK_STORE", &server.url_as("app", "p"));
    let _held = bench.acquire(&["job", "--ttl", "60s"]);
    for (verbose, lines) in [("-q", 0), ("-v", 1)] {
        let ended = bench.run(["run", "job", verbose, "--wait", "1s", "--", "true"]);
        assert_eq!(ended.code, 75, "{ended:?}");
        let said = ended.stderr.lines().filter(|line| line.contains("+publish +subscribe"));
        assert_eq!(said.count(), lines, "{ended:?}");
    }
}
