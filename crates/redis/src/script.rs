//! Scripts, and how one is run: by its text the first time on a connection, then by its hash.
//!
//! The text first, because a script that the server does not know would cost a second round trip,
//! and would let requests behind it overtake: an acquire its own release. No `SCRIPT LOAD`, nothing
//! to prepare. Where the server has lost a script (`SCRIPT FLUSH`), `NOSCRIPT` is repaired by
//! exactly one `EVAL` in the same call, on every path. A server, or rights, without one of `EVAL`
//! and `EVALSHA` is remembered.

use std::{
    mem,
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
};

use fencelock_core::{Incarnation, ListenerId};
use fencelock_store::{Outcome, StoreErrorKind};
use redis::{Arg, Cmd, Value};

use crate::{
    cluster::Route,
    connection::{Again, Answer, Arrived, Flight, Order, ask},
    error::{self, Failure},
    rights,
};

/// The text of a script, and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    hash: String,
    /// Which bit stands for it in [`Known`].
    bit: u64,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let hash = redis::Script::new(text).get_hash().to_owned();
        // There are some twenty scripts, made once each: a bit for everyone.
        Self {
            text,
            hash,
            bit: NEXT
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bit| bit.checked_mul(2))
                .unwrap_or(0),
        }
    }
}

/// A static [`Script`] made of files.
macro_rules! script {
    ($($file:literal),+ $(,)?) => {
        std::sync::LazyLock::new(|| $crate::script::Script::new(concat!($(include_str!($file)),+)))
    };
}
pub(crate) use script;

/// Which scripts a connection has run by their text: the server knows them.
#[derive(Debug, Default)]
pub(crate) struct Known(AtomicU64);

impl Known {
    fn has(&self, script: &Script) -> bool {
        self.0.load(Ordering::Relaxed) & script.bit != 0
    }

    fn add(&self, script: &Script) {
        self.0.fetch_or(script.bit, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Which of the two commands a server allows, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Allowed(AtomicU8);

impl Allowed {
    const BOTH: u8 = 0;
    const TEXT_ONLY: u8 = 1;
    const HASH_ONLY: u8 = 2;

    /// A new connection: what was found out of the one before may not hold here.
    pub(crate) fn forget(&self) {
        self.set(Self::BOTH);
    }

    fn set(&self, what: u8) {
        self.0.store(what, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a script is to be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its hash if the connection has run it before, else by its text.
    Usual,
    Text,
    Hash,
}

/// What the restart guard, where there is one, has to say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Nothing: it grants nothing.
    Any,
    /// It goes only to a server that counts.
    Counted,
    /// It goes to any; its script must know which life of the server the client sees.
    Told,
}

/// Whose answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// A primary's: that of a replica may be out of date.
    Primary,
    /// Everybody's: it is about the servers, and not about what they keep.
    Anybody,
}

/// One call of a script, or one command, complete.
pub(crate) struct Question {
    /// The command; a script is named by its hash.
    request: Cmd,
    script: Option<&'static Script>,
    pub(crate) again: Again,
    pub(crate) order: Order,
    /// Where on a cluster it has to go.
    pub(crate) route: Route,
    /// Who is to hear of what comes of it, so that on a cluster it listens there first.
    pub(crate) listener: Option<ListenerId>,
    /// It goes behind an ASKING, in one write: to a server that a slot is on the way to.
    pub(crate) asking: bool,
    pub(crate) admission: Admission,
    pub(crate) believed: Believed,
    /// The life of the server that it goes to, as its last argument: another one on each
    /// connection.
    told: Option<Incarnation>,
}

impl Question {
    /// A command that is not a script.
    pub(crate) fn command(request: Cmd, again: Again, order: Order) -> Self {
        Self {
            request,
            script: None,
            again,
            order,
            route: Route::Any,
            listener: None,
            asking: false,
            admission: Admission::Any,
            believed: Believed::Primary,
            told: None,
        }
    }

    /// A call of a script, still without keys and arguments. `sizes` are the number and the bytes
    /// of what follows.
    pub(crate) fn script(script: &'static Script, keys: usize, sizes: (usize, usize)) -> Self {
        const HEAD_BYTES: usize = 64;
        let mut request = Cmd::with_capacity(sizes.0 + 3, sizes.1 + HEAD_BYTES);
        request.arg("EVALSHA").arg(&script.hash[..]).arg(keys);
        let question = Self::command(request, Again::Harmless, Order::Any);
        Self { script: Some(script), ..question }
    }

    pub(crate) fn arg(&mut self, bytes: &[u8]) -> &mut Self {
        self.request.arg(bytes);
        self
    }

    pub(crate) fn again(mut self, again: Again) -> Self {
        self.again = again;
        self
    }

    pub(crate) fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Whether a copy does no harm.
    pub(crate) fn is_harmless(&self) -> bool {
        self.again == Again::Harmless
    }

    pub(crate) fn admission(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    pub(crate) fn is_script(&self) -> bool {
        self.script.is_some()
    }

    /// Says which life of the server it is sent to.
    pub(crate) fn tell(&mut self, run_id: Incarnation) {
        self.told = Some(run_id);
    }

    /// The command for a connection, to be [given back](Self::take_back), and whether it names its
    /// script by the text.
    pub(crate) fn on(&mut self, known: &Known, allowed: &Allowed, form: Form) -> (Cmd, bool) {
        let by_text = |script| match form {
            Form::Text => true,
            Form::Hash => false,
            Form::Usual => match allowed.get() {
                Allowed::TEXT_ONLY => true,
                Allowed::HASH_ONLY => false,
                _ => !known.has(script),
            },
        };
        let (mut request, by_text) = match self.script {
            Some(script) if self.is_uncounted(script, allowed, form) => {
                let text = script.text.replace(COUNTS, COUNTS_NOT);
                (self.with_text(&text), true)
            }
            Some(script) if by_text(script) => (self.with_text(script.text), true),
            // The other connection may lead to another life of the server.
            _ if self.told.is_some() => (self.request.clone(), false),
            _ => return (mem::take(&mut self.request), false),
        };
        if let Some(run_id) = &self.told {
            request.arg(run_id.as_str());
        }
        (request, by_text)
    }

    /// Takes a command back, so that it can go out again.
    pub(crate) fn take_back(&mut self, request: Cmd, by_text: bool) {
        if !by_text && self.told.is_none() {
            self.request = request;
        }
    }

    /// Learns from an answer what the server knows.
    pub(crate) fn learn(&self, known: &Known, by_text: bool, value: &Value) {
        let Some(script) = self.script else { return };
        match value {
            Value::ServerError(refused) if refused.code() == "NOSCRIPT" => known.clear(),
            Value::ServerError(_) => {}
            // What went behind an ASKING may have been another text.
            _ if by_text && !self.asking => known.add(script),
            _ => {}
        }
    }

    /// Asks it; what became of the first copy may be known already. An answer is never an error of
    /// the server.
    pub(crate) async fn ask(
        &mut self,
        flight: &Flight<'_>,
        first: Option<Arrived>,
    ) -> Result<Answer, Failure> {
        let mut answer = ask(flight, self, Form::Usual, first).await?;
        if let Some(form) = self.other_form(&answer, flight.allowed()) {
            let first = answer;
            // Whatever becomes of this copy: one before it may have been carried out.
            let after = |failure: Failure| match first.resent {
                true => Failure { outcome: Outcome::Unknown, ..failure },
                false => failure,
            };
            // On the heap: it is rare, and as large as the first.
            answer = Box::pin(ask(flight, self, form, None)).await.map_err(after)?;
            answer.resent |= first.resent;
            match (form, &answer.value) {
                // Whatever else is wrong: that command exists.
                (Form::Hash, Value::ServerError(refused)) if refused.code() == "NOSCRIPT" => {
                    return Err(after(no_eval(&first.value, flight.at())));
                }
                (Form::Hash, value) if !refuses(value, "evalsha") => {
                    flight.allowed().set(Allowed::HASH_ONLY);
                }
                (Form::Text, value)
                    if refuses(&first.value, "evalsha") && !refuses(value, "eval") =>
                {
                    flight.allowed().set(Allowed::TEXT_ONLY);
                }
                _ => {}
            }
        }
        if !matches!(answer.value, Value::ServerError(_)) {
            return Ok(answer);
        }
        let mut failure = self.failure(&answer.value, flight);
        if let Some(mut question) = self.about_rights(&failure)
            && let Ok(answer) = Box::pin(ask(flight, &mut question, Form::Text, None)).await
        {
            failure = rights::named(failure, &answer.value, flight.at());
        }
        if answer.resent {
            // This copy was refused; what became of the first one nobody knows.
            failure.outcome = Outcome::Unknown;
        }
        Err(failure)
    }

    /// The form to try where the first one can't have been understood.
    fn other_form(&self, answer: &Answer, allowed: &Allowed) -> Option<Form> {
        self.script?;
        let Value::ServerError(refused) = &answer.value else { return None };
        if answer.by_text {
            let open = allowed.get() == Allowed::BOTH;
            return (open && refuses(&answer.value, "eval")).then_some(Form::Hash);
        }
        let unknown = refused.code() == "NOSCRIPT" && allowed.get() != Allowed::HASH_ONLY;
        (unknown || refuses(&answer.value, "evalsha")).then_some(Form::Text)
    }

    /// The question which right is missing, where a failure leaves that open.
    pub(crate) fn about_rights(&self, failure: &Failure) -> Option<Question> {
        const KEY: usize = 3;
        let key = self.request.args_iter().nth(KEY).and_then(|argument| match argument {
            Arg::Simple(key) => Some(key),
            _ => None,
        });
        let no_keys = self.request.args_iter().nth(KEY - 1) == Some(Arg::Simple(b"0"));
        let question = rights::question(failure, self.script?.text, key.filter(|_| !no_keys))?;
        Some(Question { route: self.route.clone(), asking: self.asking, ..question })
    }

    fn failure(&self, value: &Value, flight: &Flight<'_>) -> Failure {
        let Value::ServerError(refused) = value else {
            return error::odd(flight.at(), "no error");
        };
        let text = refused.details().unwrap_or_default();
        let failure = error::from_server(refused.code(), text, flight.at());
        if failure.retire {
            flight.retire();
        }
        if self.script.is_none() {
            return failure;
        }
        if refused.code() == "NOSCRIPT" && flight.allowed().get() != Allowed::HASH_ONLY {
            let message =
                format!("{} says that it lost a script although it was just given", flight.at());
            let kind = StoreErrorKind::Protocol;
            return Failure { kind, outcome: Outcome::NotDone, message, ..failure };
        }
        if refused.code() == "NOSCRIPT" || refuses(value, "eval") || refuses(value, "evalsha") {
            return no_eval(value, flight.at());
        }
        failure
    }

    /// Whether the script has to be told, by its text, that listeners are not where it runs.
    fn is_uncounted(&self, script: &Script, allowed: &Allowed, form: Form) -> bool {
        let may = form != Form::Hash && allowed.get() != Allowed::HASH_ONLY;
        self.asking && may && script.text.contains(COUNTS)
    }

    /// The same call with a text in place of the hash.
    fn with_text(&self, text: &str) -> Cmd {
        let arguments = self.request.args_iter();
        let bytes = arguments.clone().map(|argument| match argument {
            Arg::Simple(bytes) => bytes.len(),
            _ => 0,
        });
        let mut request = Cmd::with_capacity(arguments.len(), bytes.sum::<usize>() + text.len());
        request.arg("EVAL").arg(text);
        for argument in arguments.skip(2) {
            if let Arg::Simple(bytes) = argument {
                request.arg(bytes);
            }
        }
        request
    }
}

/// The line of the scripts that says whether counts of listeners mean something, and what stands
/// there for the server that a slot is on the way to: see `line.lua`.
const COUNTS: &str = "local counts = true";
const COUNTS_NOT: &str = "local counts = false";

/// The error where scripts can't be run.
fn no_eval(value: &Value, at: &str) -> Failure {
    let cause = match value {
        Value::ServerError(refused) => refused.code().to_owned(),
        _ => String::new(),
    };
    Failure {
        kind: StoreErrorKind::Denied,
        outcome: Outcome::NotDone,
        message: format!("{at} does not allow EVAL, which fencelock needs; grant +eval +evalsha"),
        cause,
        retire: false,
        is_too_soon: false,
        names_no_right: false,
    }
}

/// Whether the server does not know, or does not permit, a command.
fn refuses(value: &Value, command: &str) -> bool {
    let Value::ServerError(refused) = value else { return false };
    let text = refused.details().unwrap_or_default();
    let before = text.split(", with args").next().unwrap_or_default();
    let mut words = before.split(|c: char| !c.is_ascii_alphanumeric());
    let says_no = refused.code() == "NOPERM" || before.contains("unknown command");
    says_no && words.any(|word| word.eq_ignore_ascii_case(command))
}
