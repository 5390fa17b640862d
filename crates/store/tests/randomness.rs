//! Tokens are never drawn twice: not by one thread, not by several, and not by both sides of a
//! fork, which begin with the same memory.
//!
//! This file is the one place of the crate's tests with `unsafe`: for `fork`.

use std::{
    collections::HashSet,
    io::{Read as _, Write as _},
};

use fencelock_store::{core::Token, rt};

#[test]
fn no_thread_draws_a_token_that_another_drew() {
    let threads: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(|| (0..2_000).map(|_| rt::fresh_token()).collect::<Vec<_>>()))
        .collect();
    let mut seen = HashSet::new();
    for thread in threads {
        for token in thread.join().expect("it drew") {
            assert!(seen.insert(token), "a token was drawn twice");
        }
    }
}

#[test]
fn every_bit_of_a_token_is_random() {
    let (mut ones, mut zeros) = ([0u8; Token::BYTES], [0xffu8; Token::BYTES]);
    for _ in 0..200 {
        let token = rt::fresh_token();
        for (index, byte) in token.as_bytes().iter().enumerate() {
            ones[index] |= byte;
            zeros[index] &= byte;
        }
    }
    assert_eq!((ones, zeros), ([0xff; Token::BYTES], [0; Token::BYTES]));
}

#[test]
fn a_forked_copy_draws_other_tokens() {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    // The generator of this thread is seeded before the fork, so that both sides have a copy.
    let before = rt::fresh_token();
    // SAFETY: the child draws one token, writes it and leaves without unwinding; it takes no lock
    // that another thread of the parent may hold.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the system forks");
    if child == 0 {
        let token = rt::fresh_token();
        let written = writer.write_all(token.as_bytes()).is_ok();
        // SAFETY: ends the process at once, as a forked copy must.
        unsafe { libc::_exit(i32::from(!written)) };
    }
    let ours = rt::fresh_token();
    drop(writer);
    let mut theirs = Vec::new();
    reader.read_to_end(&mut theirs).expect("the child wrote");
    let mut status = 0;
    // SAFETY: waits for the child that was made above.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child ended well");
    let theirs = Token::from_bytes(theirs.try_into().expect("the child drew one token"));
    assert!(theirs != ours && theirs != before);
}
