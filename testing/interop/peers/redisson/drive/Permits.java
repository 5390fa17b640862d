// RPermitExpirableSemaphore: permits with ids and ends. The option limit=N sets them if none are.

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

final class Permits extends Held {
    private final RedissonClient client;
    private final Integer limit;
    private int permits = 1;
    private RPermitExpirableSemaphore semaphore;
    private List<String> ids = List.of();

    Permits(RedissonClient client, Map<String, String> options) {
        this.client = client;
        this.limit = options.containsKey("limit") ? Integer.valueOf(options.get("limit")) : null;
    }

    private RPermitExpirableSemaphore named(String name) {
        semaphore = client.getPermitExpirableSemaphore(name);
        if (limit != null) {
            semaphore.trySetPermits(limit);
        }
        return semaphore;
    }

    @Override
    String acquire(String name, long ttlMillis, long waitMillis) throws Exception {
        named(name);
        // Less than nothing is its word for a permit without an end.
        long lease = ttlMillis == 0 ? -1 : ttlMillis;
        List<String> granted =
                semaphore.tryAcquire(permits, waitMillis, lease, TimeUnit.MILLISECONDS);
        if (granted == null || granted.isEmpty()) {
            return null;
        }
        ids = granted;
        return String.join("", ids);
    }

    @Override
    boolean release() {
        return ids.size() == 1
                ? semaphore.tryRelease(ids.get(0))
                : semaphore.tryRelease(ids) == ids.size();
    }

    @Override
    boolean extend(long ttlMillis) {
        boolean all = true;
        for (String id : ids) {
            all &= semaphore.updateLeaseTime(id, ttlMillis, TimeUnit.MILLISECONDS);
        }
        return all;
    }

    @Override
    boolean holding() {
        return ttl() != GONE;
    }

    @Override
    long ttl() {
        return semaphore.getLeaseTime(ids.get(0));
    }

    @Override
    String word(String[] words) {
        switch (words[0]) {
            case "permits" -> permits = Integer.parseInt(words[1]);
            case "name" -> named(words[1]);
            case "add" -> semaphore.addPermits(Integer.parseInt(words[1]));
            case "set" -> semaphore.setPermits(Integer.parseInt(words[1]));
            case "available" -> {
                return "ok " + semaphore.availablePermits();
            }
            case "acquired" -> {
                return "ok " + semaphore.acquiredPermits();
            }
            default -> {
                return null;
            }
        }
        return "ok";
    }
}
