//! A row of the table and the record that it stands for, as seen from here and now.
//!
//! ```text
//!   same boot and time namespace     end_us as it is
//!   another one                      wall_end_us, moved to our lease clock
//!   bound, and all processes gone    at most now
//! ```

use fencelock_core::{
    Binding, FencingToken, ForeignKind, Kind, ListenerId, Metadata, ProcessId, Record, RecordState,
    Share, StoreNow, StoreTime, Token,
};
use rusqlite::{Row as SqlRow, types::ValueRef};

use crate::{mode, process::Presence, surroundings::Surroundings};

/// The word of the column `kind`. A mutex is the exclusive mode of all locks of its kind, and was
/// the first.
pub(crate) fn kind_column(kind: Kind) -> &'static str {
    match kind {
        Kind::Lock => "mutex",
        other => other.as_str(),
    }
}

/// The columns in the order of [`Stored::read`].
macro_rules! columns {
    () => {
        "kind, held, token, fencing_token, fence_by_token, end_us, wall_end_us, boot_id, \
         time_namespace, forget_at_us, metadata, processes, pid_namespace, first_fence, listener, \
         revoked, unattended, waiting, crowd"
    };
}
pub(crate) use columns;
/// Where the name is that some select after these columns.
pub(crate) const NAME: usize = 19;

/// What is in the table at a name.
// A step makes a few, on its stack.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// No row.
    Absent,
    /// A row that is not ours to change.
    Foreign(ForeignKind),
    /// Our record, possibly over.
    Ours(Ours),
}

/// A record with what the rules do not know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ours {
    /// As the rules see it now.
    pub(crate) record: Record,
    /// What it is bound to.
    pub(crate) bound: Option<Bound>,
    /// Whether it was written on our boot and in our time namespace.
    pub(crate) written_here: bool,
    /// How many places the line of the name has.
    pub(crate) waiting: u32,
    /// The shares in the file, over or not.
    pub(crate) shares: Vec<Share>,
}

/// The processes that a lease is bound to, and where their ids mean something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    /// As written: [`PROCESS_BYTES`] for each.
    pub(crate) processes: Vec<u8>,
    /// The inode of their pid namespace, where it was known.
    pub(crate) pid_namespace: Option<i64>,
}

/// The most processes that one lease can be bound to: a wrapper and its minder are two.
pub(crate) const MAX_PROCESSES: usize = 16;
const PROCESS_BYTES: usize = 12;

impl Bound {
    /// What a new lease is bound to. No processes at all is not "all of them gone".
    pub(crate) fn new(binding: &Binding, here: &Surroundings) -> Option<Self> {
        let Binding::Processes(processes) = binding else { return None };
        if processes.is_empty() {
            return None;
        }
        let mut bytes = Vec::with_capacity(processes.len() * PROCESS_BYTES);
        for process in processes {
            bytes.extend_from_slice(&process.pid.to_be_bytes());
            bytes.extend_from_slice(&process.started.to_be_bytes());
        }
        Some(Self { processes: bytes, pid_namespace: here.pid_namespace.map(to_column) })
    }

    /// The processes, for the rules.
    pub(crate) fn binding(&self) -> Binding {
        let (processes, _) = self.processes.as_chunks::<PROCESS_BYTES>();
        Binding::Processes(processes.iter().map(read_process).collect())
    }

    /// Whether every process is certainly gone.
    pub(crate) fn is_gone(&self, here: &Surroundings) -> bool {
        let comparable =
            self.pid_namespace.is_some() && self.pid_namespace == here.pid_namespace.map(to_column);
        let (processes, rest) = self.processes.as_chunks::<PROCESS_BYTES>();
        comparable
            && rest.is_empty()
            && !processes.is_empty()
            && processes
                .iter()
                .all(|process| here.presence(read_process(process)) == Presence::Gone)
    }
}

fn read_process(bytes: &[u8; PROCESS_BYTES]) -> ProcessId {
    let [a, b, c, d, started @ ..] = *bytes;
    ProcessId { pid: u32::from_be_bytes([a, b, c, d]), started: u64::from_be_bytes(started) }
}

impl Slot {
    /// What a row stands for; what can't be read is foreign.
    pub(crate) fn of(row: &SqlRow<'_>, here: &Surroundings, now: StoreNow) -> Self {
        let Some(stored) = Stored::read(row) else {
            return Self::Foreign(ForeignKind::Unreadable);
        };
        let known = Kind::ALL.into_iter().any(|kind| kind_column(kind) == stored.kind);
        let foreign = (!known).then(|| ForeignKind::Kind(stored.kind.into()));
        let ours = stored.into_ours(here, now);
        match foreign {
            // Once it is over, the name is anybody's again, whatever kind it was.
            Some(kind) if ours.record.is_live(now) => Self::Foreign(kind),
            _ => Self::Ours(ours),
        }
    }
}

/// A row as it is written.
struct Stored<'r> {
    kind: &'r str,
    record: Record,
    wall_end: StoreTime,
    boot: &'r [u8],
    time_namespace: i64,
    bound: Option<Bound>,
    waiting: u32,
}

impl<'r> Stored<'r> {
    fn read(row: &'r SqlRow<'_>) -> Option<Self> {
        let token = match blob(row, 2)? {
            None => None,
            Some(bytes) => Some(Token::from_bytes(bytes.try_into().ok()?)),
        };
        let state = match integer(row, 1)?? {
            FREE => RecordState::Free,
            RESERVED => RecordState::Reserved,
            SHARED => RecordState::Shared,
            _ => RecordState::Held,
        };
        let kind: &str = row.get_ref(0).ok()?.as_str().ok()?;
        let crowd = match blob(row, 18)? {
            None => None,
            Some(bytes) => Some(mode::crowd(bytes)?),
        };
        let record = Record {
            kind: Kind::ALL.into_iter().find(|k| kind_column(*k) == kind).unwrap_or_default(),
            state,
            token,
            fencing_token: fencing_token(row, 3)?,
            fence_by_token: integer(row, 4)?? != 0,
            first_fence: fencing_token(row, 13)?.filter(|_| state != RecordState::Free),
            listener: listener(row, 14)?.filter(|_| state != RecordState::Free),
            revoked: integer(row, 15)?? != 0,
            unattended: integer(row, 16)?? != 0,
            end: time(row, 5)?,
            forget_at: time(row, 9)?,
            metadata: Metadata::new(blob(row, 10)??).ok()?,
            // A program that knows no crowds leaves an old one beside a lease of its own.
            crowd: crowd.filter(|_| !matches!(state, RecordState::Held | RecordState::Reserved)),
        };
        Some(Self {
            kind,
            record,
            wall_end: time(row, 6)?,
            boot: blob(row, 7)??,
            time_namespace: integer(row, 8)??,
            bound: bound(row, 11, 12)?,
            waiting: u32::try_from(integer(row, 17)??).ok()?,
        })
    }

    fn into_ours(self, here: &Surroundings, now: StoreNow) -> Ours {
        let Self { mut record, bound, waiting, .. } = self;
        let written_here = self.boot == here.boot.as_slice()
            && self.time_namespace == to_column(here.time_namespace);
        if written_here {
            // Start times of processes are shown in the reader's time namespace: they too can be
            // compared only here.
            let gone = |bound: &Bound| record.is_live(now) && bound.is_gone(here);
            if bound.as_ref().is_some_and(gone) {
                record.end = record.end.min(now.lease);
            }
        } else {
            record.end = now.lease.saturating_add(self.wall_end.saturating_since(now.wall));
        }
        Ours { record, bound, written_here, waiting, shares: Vec::new() }
    }
}

/// How the column `held` says the state.
const FREE: i64 = 0;
const HELD: i64 = 1;
const RESERVED: i64 = 2;
const SHARED: i64 = 3;

/// A state as its column holds it.
pub(crate) fn state_column(state: RecordState) -> i64 {
    match state {
        RecordState::Free => FREE,
        RecordState::Held => HELD,
        RecordState::Reserved => RESERVED,
        RecordState::Shared => SHARED,
    }
}

/// What a lease is bound to, in two columns.
pub(crate) fn bound(
    row: &SqlRow<'_>,
    processes: usize,
    pid_namespace: usize,
) -> Option<Option<Bound>> {
    let pid_namespace = integer(row, pid_namespace)?;
    let processes = blob(row, processes)?.map(<[u8]>::to_vec);
    Some(processes.map(|processes| Bound { processes, pid_namespace }))
}

/// A fencing token, or none.
pub(crate) fn fencing_token(row: &SqlRow<'_>, index: usize) -> Option<Option<FencingToken>> {
    match integer(row, index)? {
        None => Some(None),
        Some(number) => Some(Some(FencingToken::new(u64::try_from(number).ok()?).ok()?)),
    }
}

/// An address for wakeups, or none: the bits of the column, which has a sign.
pub(crate) fn listener(row: &SqlRow<'_>, index: usize) -> Option<Option<ListenerId>> {
    Some(integer(row, index)?.map(|bits| ListenerId::from_u64(bits.cast_unsigned())))
}

/// An address as its column holds it.
pub(crate) fn listener_column(listener: ListenerId) -> i64 {
    listener.as_u64().cast_signed()
}

/// Outer nothing: not what the column holds. Inner nothing: NULL.
pub(crate) fn blob<'r>(row: &'r SqlRow<'_>, index: usize) -> Option<Option<&'r [u8]>> {
    match row.get_ref(index).ok()? {
        ValueRef::Blob(bytes) => Some(Some(bytes)),
        ValueRef::Null => Some(None),
        _ => None,
    }
}

pub(crate) fn integer(row: &SqlRow<'_>, index: usize) -> Option<Option<i64>> {
    match row.get_ref(index).ok()? {
        ValueRef::Integer(number) => Some(Some(number)),
        ValueRef::Null => Some(None),
        _ => None,
    }
}

pub(crate) fn time(row: &SqlRow<'_>, index: usize) -> Option<StoreTime> {
    let micros = u64::try_from(integer(row, index)??).ok()?;
    Some(StoreTime::from_micros(micros))
}

/// A number as a column holds it; beyond the range, the largest.
pub(crate) fn to_column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
