// One kind of thing that can be held, and the one last acquired.

import java.util.HexFormat;
import java.util.Map;
import org.redisson.api.RedissonClient;

abstract class Held {
    /** What Redis says of a key that is not there. */
    static final long GONE = -2;

    static Held of(String kind, RedissonClient client, Map<String, String> options) {
        return switch (kind) {
            case "semaphore" -> new Semaphore(client, options);
            case "permits" -> new Permits(client, options);
            case "latch" -> new Latch(client, options);
            default -> new Locks(kind, client, options);
        };
    }

    /** The hex of what owns it, {@code -} if that is unknown, null when it is busy. */
    abstract String acquire(String name, long ttlMillis, long waitMillis) throws Exception;

    /** Whether it was still ours. */
    abstract boolean release() throws Exception;

    /** Whether it was still ours. */
    boolean extend(long ttlMillis) {
        throw new UnsupportedOperationException();
    }

    boolean holding() {
        throw new UnsupportedOperationException();
    }

    /** Milliseconds, -1 for one without end. */
    long ttl() {
        throw new UnsupportedOperationException();
    }

    /** The answer to a word of this kind only; null when it has no such word. */
    abstract String word(String[] words) throws Exception;

    static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }
}
