// Drives the lock registry of Spring Integration, over Lettuce. The protocol is described in
// ../PROTOCOL.md. KIND is spin or pubsub, with -GENERATION behind it for another than the newest;
// the option registry=KEY is its registry key, `registry` if there is none.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.HexFormat;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.logging.LogManager;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

public final class Drive {
    private final LettuceConnectionFactory connections;
    private final StringRedisTemplate redis;
    private final RedisLockType type;
    private final String registryKey;
    private RedisLockRegistry registry;
    private long registryTtlMillis;
    private Lock lock;
    private String name;
    private String owner;

    private Drive(URI url, String kind, String registryKey) {
        this.registryKey = registryKey;
        type = switch (kind.split("-")[0]) {
            case "spin" -> RedisLockType.SPIN_LOCK;
            case "pubsub" -> RedisLockType.PUB_SUB_LOCK;
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
        RedisStandaloneConfiguration server =
                new RedisStandaloneConfiguration(url.getHost(), url.getPort());
        String database = url.getPath().replace("/", "");
        server.setDatabase(database.isEmpty() ? 0 : Integer.parseInt(database));
        connections = new LettuceConnectionFactory(server);
        connections.afterPropertiesSet();
        connections.start();
        redis = new StringRedisTemplate(connections);
        redis.hasKey("warm");
    }

    public static void main(String[] args) throws Exception {
        // A registry that ends complains of each message that comes a little later.
        LogManager.getLogManager().reset();
        String registryKey = "registry";
        for (int index = 2; index < args.length; index++) {
            if (args[index].startsWith("registry=")) {
                registryKey = args[index].substring("registry=".length());
            }
        }
        Drive drive = new Drive(URI.create(args[0]), args[1], registryKey);
        say("ready spring-integration-redis "
                + RedisLockRegistry.class.getPackage().getImplementationVersion());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            if (line.trim().equals("quit")) {
                break;
            }
            say(drive.answer(line.trim().split(" +")));
        }
        // Nothing is released or said on the way out, as in a death.
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] words) {
        try {
            return switch (words[0]) {
                case "acquire" -> acquire(
                        words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
                case "again" -> lock.tryLock() ? "ok " + owner() : "busy";
                case "release" -> release() ? "ok" : "expired";
                case "extend" -> extend(Long.parseLong(words[1])) ? "ok" : "expired";
                // The registry does not tell; the server does.
                case "holding" -> owner.equals(value()) ? "ok" : "expired";
                case "ttl" -> "error unsupported";
                default -> "error unknown command";
            };
        } catch (UnsupportedOperationException what) {
            return "error unsupported";
        } catch (Exception error) {
            return ("error " + error).replaceAll("\\s+", " ");
        }
    }

    /** Each time with a registry of its own: that is what a lock belongs to, and what has a ttl. */
    private String acquire(String name, long ttlMillis, long waitMillis) throws Exception {
        if (registry != null) {
            registry.destroy();
        }
        registry = new RedisLockRegistry(connections, registryKey, ttlMillis);
        registry.setRedisLockType(type);
        registryTtlMillis = ttlMillis;
        this.name = name;
        lock = registry.obtain(name);
        boolean granted = waitMillis == 0
                ? lock.tryLock()
                : lock.tryLock(waitMillis, TimeUnit.MILLISECONDS);
        if (!granted) {
            return "busy";
        }
        owner = value();
        return "ok " + owner();
    }

    private boolean release() {
        try {
            lock.unlock();
            return true;
        } catch (ConcurrentModificationException | IllegalStateException notOurs) {
            return false;
        }
    }

    /** Before 7.0 only to the registry's own ttl. */
    private boolean extend(long ttlMillis) throws Exception {
        try {
            if (ttlMillis == registryTtlMillis) {
                registry.renewLock(name);
            } else {
                RedisLockRegistry.class.getMethod("renewLock", Object.class, Duration.class)
                        .invoke(registry, name, Duration.ofMillis(ttlMillis));
            }
            return true;
        } catch (NoSuchMethodException older) {
            throw new UnsupportedOperationException(older);
        } catch (IllegalStateException notOurs) {
            return false;
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof IllegalStateException) {
                return false;
            }
            throw wrapped;
        }
    }

    private String value() {
        return redis.opsForValue().get(registryKey + ":" + name);
    }

    private String owner() {
        return owner == null
                ? "-"
                : HexFormat.of().formatHex(owner.getBytes(StandardCharsets.UTF_8));
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
