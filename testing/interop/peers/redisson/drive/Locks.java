// All that is an RLock. With the option thread=N the asynchronous calls are made, for the owner N.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

final class Locks extends Held {
    private final RedissonClient client;
    private final String kind;
    private final Long thread;
    private RLock lock;
    private RLock[] members;
    private Long fence;

    Locks(String kind, RedissonClient client, Map<String, String> options) {
        this.kind = kind;
        this.client = client;
        this.thread = options.containsKey("thread") ? Long.valueOf(options.get("thread")) : null;
        named("kind-check");
        lock = null;
    }

    private RLock named(String name) {
        lock = switch (kind) {
            case "lock" -> client.getLock(name);
            case "fair" -> client.getFairLock(name);
            case "spin" -> client.getSpinLock(name);
            case "fenced" -> client.getFencedLock(name);
            case "once" -> client.getNonReentrantLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            case "multi" -> client.getMultiLock(each(name));
            case "red" -> client.getRedLock(each(name));
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
        return lock;
    }

    /** The members of a lock of several. */
    private RLock[] each(String names) {
        List<RLock> locks = new ArrayList<>();
        for (String name : names.split(",")) {
            locks.add(client.getLock(name));
        }
        members = locks.toArray(new RLock[0]);
        return members;
    }

    private long owner() {
        return thread == null ? Thread.currentThread().getId() : thread;
    }

    @Override
    String acquire(String name, long ttlMillis, long waitMillis) throws Exception {
        named(name);
        // Less than nothing is its word for a lease that its watchdog renews.
        long lease = ttlMillis == 0 ? -1 : ttlMillis;
        boolean granted;
        if (lock instanceof RFencedLock fenced && thread == null) {
            fence = fenced.tryLockAndGetToken(waitMillis, lease, TimeUnit.MILLISECONDS);
            granted = fence != null;
        } else if (thread == null) {
            granted = lock.tryLock(waitMillis, lease, TimeUnit.MILLISECONDS);
        } else {
            granted = lock.tryLockAsync(waitMillis, lease, TimeUnit.MILLISECONDS, thread)
                    .toCompletableFuture().join();
        }
        if (!granted) {
            return null;
        }
        return hex(client.getId() + ":" + owner() + (kind.equals("write") ? ":write" : ""));
    }

    @Override
    boolean release() {
        // Its unlock does not tell when it is late.
        boolean ours = !kind.equals("red") || holding();
        try {
            if (thread == null) {
                lock.unlock();
            } else {
                lock.unlockAsync(thread).toCompletableFuture().join();
            }
            return ours;
        } catch (IllegalMonitorStateException notOurs) {
            return false;
        } catch (CompletionException wrapped) {
            if (wrapped.getCause() instanceof IllegalMonitorStateException) {
                return false;
            }
            throw wrapped;
        }
    }

    @Override
    boolean holding() {
        if (kind.equals("red")) {
            long held = Arrays.stream(members).filter(one -> one.isHeldByThread(owner())).count();
            return held > members.length / 2;
        }
        return lock.isHeldByThread(owner());
    }

    @Override
    long ttl() {
        return lock.remainTimeToLive();
    }

    @Override
    String word(String[] words) {
        if (words.length > 1) {
            named(words[1]);
        }
        return switch (words[0]) {
            case "holdcount" -> "ok " + lock.getHoldCount();
            case "isLocked" -> "ok " + lock.isLocked();
            case "force" -> lock.forceUnlock() ? "ok" : "expired";
            case "token" -> "ok " + (lock instanceof RFencedLock fenced ? fenced.getToken() : "-")
                    + " " + fence;
            default -> null;
        };
    }
}
