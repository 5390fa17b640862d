//! What is done to the lease of one of several who hold a name together.
//!
//! Each verb has checked before that the token has a share, where it says so.

use core::time::Duration;

use crate::{
    Binding, Crowd, ExchangeRequest, Fence, Lines, RaiseFenceRequest, Record, RecordState,
    ReleaseRequest, Released, RenewRequest, Share, StoreNow, StoreTime, Token, Wakeup,
};

fn share(record: &mut Record, token: Token) -> Option<&mut Share> {
    record.crowd.as_mut()?.share_mut(token)
}

/// Prolongs a share: how long it runs, and whether it was asked for back.
pub(super) fn prolong(
    record: &mut Record,
    request: &RenewRequest,
    end: StoreTime,
    now: StoreNow,
) -> (Duration, bool) {
    let Some(share) = share(record, request.token) else { return (Duration::ZERO, false) };
    share.end = share.end.max(end);
    share.listener = request.listener.or(share.listener);
    share.unattended = request.unattended;
    let (ends, revoked) = (share.end, share.revoked);
    record.refresh(now);
    let forget_at = Record::forget_time(ends, record.fencing_token, request.retain, now);
    record.forget_at = record.forget_at.max(forget_at);
    (ends.saturating_since(now.lease), revoked)
}

/// Brings the end of a share nearer: how long it runs. The record is kept as long as before, since
/// others may still need it.
pub(super) fn shorten(
    record: &mut Record,
    token: Token,
    end: StoreTime,
    now: StoreNow,
) -> Duration {
    let Some(share) = share(record, token) else { return Duration::ZERO };
    share.end = share.end.min(end);
    let left = share.end.saturating_since(now.lease);
    record.refresh(now);
    left
}

/// Gives a share back; the last one frees the name.
pub(super) fn release(record: &mut Record, request: &ReleaseRequest, now: StoreNow) -> Released {
    let live = record.live_share(request.token, now).is_some();
    let Some(crowd) = &mut record.crowd else { return Released::Expired };
    if !live {
        let again = crowd.spent.contains(&request.token);
        return if again { Released::Held } else { Released::Expired };
    }
    crowd.shares.retain(|share| share.token != request.token);
    crowd.spend(request.token);
    record.refresh(now);
    if record.state == RecordState::Free {
        record.end = now.lease;
        record.forget_at =
            Record::forget_time(now.lease, record.fencing_token, request.retain, now);
    }
    Released::Held
}

/// Exchanges the token of a share: a new grant. How long it runs.
pub(super) fn exchange(
    record: &mut Record,
    request: &ExchangeRequest,
    fence: Fence,
    end: StoreTime,
    now: StoreNow,
) -> Duration {
    record.fencing_token = fence.token().or(record.fencing_token);
    let Some(share) = share(record, request.from) else { return Duration::ZERO };
    share.token = request.to;
    share.fencing_token = fence.token();
    share.listener = request.listener;
    share.unattended = false;
    share.end = share.end.max(end);
    share.metadata = request.metadata.clone();
    share.binding = request.binding.clone();
    let ends = share.end;
    record.refresh(now);
    let forget_at = Record::forget_time(ends, record.fencing_token, request.retain, now);
    record.forget_at = record.forget_at.max(forget_at);
    ends.saturating_since(now.lease)
}

/// Writes a larger fencing token to a share.
pub(super) fn raise(record: &mut Record, request: &RaiseFenceRequest) {
    record.fencing_token = Some(request.fencing_token);
    let fence_instant = StoreTime::from_micros(request.fencing_token.as_u64());
    record.forget_at = record.forget_at.max(fence_instant);
    if let Some(share) = share(record, request.token) {
        share.fencing_token = Some(request.fencing_token);
    }
}

/// Asks every holder that would hear of it, in the [order](Share::order) of shares.
pub(super) fn revoke(record: &mut Record, lines: &mut dyn Lines, now: StoreNow) {
    let Some(crowd) = &mut record.crowd else { return };
    crowd.shares.sort_by_key(Share::order);
    let live = crowd.shares.iter_mut().filter(|share| share.end > now.lease && !share.unattended);
    for share in live {
        share.revoked = true;
        if let Some(listener) = share.listener {
            lines.tell(listener, Wakeup::Revoked(share.token));
        }
    }
}

/// What is left of a crowd whose name was freed by force: nobody, and its limit.
pub(super) fn broken(crowd: Crowd) -> Crowd {
    Crowd { limit: crowd.limit, spent: crowd.spent, ..Crowd::default() }
}

/// Makes the one who holds a name alone one of several who may.
pub(super) fn share_alone(record: &mut Record, binding: &Binding) {
    let Some(token) = record.token.take() else { return };
    let share = Share {
        token,
        fencing_token: record.own_fence(),
        weight: 1,
        end: record.end,
        listener: record.listener.take(),
        revoked: record.revoked,
        unattended: record.unattended,
        metadata: core::mem::take(&mut record.metadata),
        binding: binding.clone(),
    };
    record.state = RecordState::Shared;
    record.fence_by_token = false;
    record.first_fence = None;
    record.revoked = false;
    record.unattended = false;
    record.crowd = Some(Crowd { shares: alloc::vec![share], ..Crowd::default() });
}
