// RCountDownLatch. It can't be held; the option name=NAME or the word `name NAME` chooses one.

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

final class Latch extends Held {
    private final RedissonClient client;
    private RCountDownLatch latch;

    Latch(RedissonClient client, Map<String, String> options) {
        this.client = client;
        latch = client.getCountDownLatch(options.getOrDefault("name", "latch"));
    }

    @Override
    String acquire(String name, long ttlMillis, long waitMillis) {
        throw new UnsupportedOperationException();
    }

    @Override
    boolean release() {
        throw new UnsupportedOperationException();
    }

    @Override
    String word(String[] words) throws Exception {
        switch (words[0]) {
            case "name" -> latch = client.getCountDownLatch(words[1]);
            case "count" -> {
                return latch.trySetCount(Long.parseLong(words[1])) ? "ok" : "busy";
            }
            case "countdown" -> latch.countDown();
            case "await" -> {
                boolean open = latch.await(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                return open ? "ok" : "busy";
            }
            case "get" -> {
                return "ok " + latch.getCount();
            }
            default -> {
                return null;
            }
        }
        return "ok";
    }
}
