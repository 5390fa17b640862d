// RSemaphore: a number of permits without owners or ends. The option limit=N sets them if none are.

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

final class Semaphore extends Held {
    private final RedissonClient client;
    private final Integer limit;
    private int permits = 1;
    private RSemaphore semaphore;

    Semaphore(RedissonClient client, Map<String, String> options) {
        this.client = client;
        this.limit = options.containsKey("limit") ? Integer.valueOf(options.get("limit")) : null;
    }

    private RSemaphore named(String name) {
        semaphore = client.getSemaphore(name);
        if (limit != null) {
            semaphore.trySetPermits(limit);
        }
        return semaphore;
    }

    @Override
    String acquire(String name, long ttlMillis, long waitMillis) throws Exception {
        named(name);
        boolean granted = waitMillis == 0
                ? semaphore.tryAcquire(permits)
                : semaphore.tryAcquire(permits, waitMillis, TimeUnit.MILLISECONDS);
        return granted ? "-" : null;
    }

    @Override
    boolean release() {
        semaphore.release(permits);
        return true;
    }

    @Override
    String word(String[] words) {
        switch (words[0]) {
            case "permits" -> permits = Integer.parseInt(words[1]);
            case "name" -> named(words[1]);
            case "add" -> semaphore.addPermits(Integer.parseInt(words[1]));
            case "drain" -> {
                return "ok " + semaphore.drainPermits();
            }
            case "available" -> {
                return "ok " + semaphore.availablePermits();
            }
            default -> {
                return null;
            }
        }
        return "ok";
    }
}
