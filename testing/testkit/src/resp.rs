//! Just enough of RESP2 and RESP3 to find where a request or a reply ends, and to build replies.
//!
//! Values are never interpreted beyond their length. Streamed strings and aggregates (`$?`, `*?`)
//! are refused: no server sends them.

/// Bytes that cannot be RESP; the connection they came on is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The length of the first complete value at the start of `bytes`, or `None` when more must come.
pub(crate) fn frame_len(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    // Values still to come before the frame is complete; aggregates add theirs.
    let mut pending: usize = 1;
    while pending > 0 {
        let Some(end) = line_end(&bytes[at..]) else { return Ok(None) };
        let line = &bytes[at..at + end];
        at += end + 2;
        pending -= 1;
        match line.first().ok_or(Malformed)? {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'!' | b'=' => {
                if let Some(count) = length(line)? {
                    at += count + 2;
                }
            }
            b'*' | b'~' | b'>' => pending += length(line)?.unwrap_or(0),
            b'%' => pending += 2 * length(line)?.unwrap_or(0),
            // An attribute goes before the value it describes.
            b'|' => pending += 2 * length(line)?.unwrap_or(0) + 1,
            _ => return Err(Malformed),
        }
        if at > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
}

/// As [`frame_len`], for what a client sends: an array, or one line of words.
pub(crate) fn request_len(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    match bytes.first() {
        None => Ok(None),
        Some(b'*') => frame_len(bytes),
        Some(_) => Ok(line_end(bytes).map(|end| end + 2)),
    }
}

/// The words of a complete request.
pub(crate) fn request_args(frame: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    if frame.first() != Some(&b'*') {
        let words = frame.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return Ok(words.map(<[u8]>::to_vec).collect());
    }
    bulk_elements(frame)
}

/// The command of a complete request in capitals; empty when there is none.
pub(crate) fn request_name(frame: &[u8]) -> String {
    let args = request_args(frame).unwrap_or_default();
    args.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default()
}

/// The leading bulk strings of a complete aggregate; for replies, what comes before another type.
pub(crate) fn bulk_elements(frame: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let head = line_end(frame).ok_or(Malformed)?;
    let count = length(&frame[..head])?.unwrap_or(0);
    let mut at = head + 2;
    let mut elements = Vec::new();
    for _ in 0..count {
        if frame.get(at) != Some(&b'$') {
            break;
        }
        let end = at + line_end(&frame[at..]).ok_or(Malformed)?;
        let Some(len) = length(&frame[at..end])? else { break };
        let start = end + 2;
        elements.push(frame.get(start..start + len).ok_or(Malformed)?.to_vec());
        at = start + len + 2;
    }
    Ok(elements)
}

/// Collects bytes and gives them back frame by frame.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    buffer: Vec<u8>,
}

impl Splitter {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame, its end found by `len`.
    pub(crate) fn next(
        &mut self,
        len: fn(&[u8]) -> Result<Option<usize>, Malformed>,
    ) -> Result<Option<Vec<u8>>, Malformed> {
        Ok(len(&self.buffer)?.map(|end| self.buffer.drain(..end).collect()))
    }
}

/// Where the `\r\n` of the first line begins.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

/// The number after the type byte; `None` for the null forms `$-1` and `*-1`.
fn length(line: &[u8]) -> Result<Option<usize>, Malformed> {
    let digits = std::str::from_utf8(&line[1..]).map_err(|_| Malformed)?;
    if digits == "-1" {
        return Ok(None);
    }
    digits.parse().map(Some).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: &[&[u8]] = &[
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-7\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",1.5\r\n",
        b"(12345678901234567890\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"$0\r\n\r\n",
        b"$4\r\n\r\n\r\n\r\n",
        b"!5\r\nERR x\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"*0\r\n",
        b"*3\r\n$1\r\na\r\n*1\r\n:1\r\n_\r\n",
        b"~1\r\n#f\r\n",
        b"%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n:2\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
        b"|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n",
    ];

    #[test]
    fn every_type_is_measured_to_its_end_and_not_before() {
        for frame in FRAMES {
            let shown = String::from_utf8_lossy(frame);
            let mut followed = frame.to_vec();
            followed.extend_from_slice(b"+next\r\n");
            assert_eq!(frame_len(&followed), Ok(Some(frame.len())), "{shown}");
            for cut in 0..frame.len() {
                assert_eq!(frame_len(&frame[..cut]), Ok(None), "{shown} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_stream_is_split_the_same_whatever_its_pieces() {
        let stream = FRAMES.concat();
        for piece in [1, 2, 3, 7, stream.len()] {
            let mut splitter = Splitter::default();
            let mut split = Vec::new();
            for bytes in stream.chunks(piece) {
                splitter.push(bytes);
                while let Some(frame) = splitter.next(frame_len).expect("well formed") {
                    split.push(frame);
                }
            }
            assert_eq!(split, FRAMES, "pieces of {piece}");
        }
    }

    #[test]
    fn requests_are_arrays_or_lines() {
        assert_eq!(request_len(b"PING  now\r\nGET"), Ok(Some(11)));
        assert_eq!(request_args(b"PING  now\r\n"), Ok(vec![b"PING".to_vec(), b"now".to_vec()]));
        let array = b"*2\r\n$3\r\nget\r\n$2\r\n\r\n\r\n";
        assert_eq!(request_len(array), Ok(Some(array.len())));
        assert_eq!(request_args(array), Ok(vec![b"get".to_vec(), b"\r\n".to_vec()]));
        assert_eq!(request_name(array), "GET");
    }

    #[test]
    fn what_is_not_resp_is_refused() {
        assert_eq!(frame_len(b"HTTP/1.1 200 OK\r\n"), Err(Malformed));
        assert_eq!(frame_len(b"$?\r\n"), Err(Malformed));
        assert_eq!(frame_len(b"\r\n"), Err(Malformed));
    }
}
