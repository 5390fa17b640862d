// Drives the locks, semaphores and latches of Redisson. The protocol is described in
// ../../PROTOCOL.md; what this driver has beside it is listed in ../NOTES.md.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Drive {
    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int index = 2; index < args.length; index++) {
            String[] option = args[index].split("=", 2);
            options.put(option[0], option[1]);
        }
        RedissonClient client = connect(URI.create(args[0]), options);
        Held held = Held.of(args[1], client, options);
        client.getBucket("warm").isExists();
        say("ready redisson " + Redisson.class.getPackage().getImplementationVersion());

        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.trim().split(" +");
            if (words[0].equals("quit")) {
                break;
            }
            if (words[0].equals("as")) {
                held = Held.of(words[1], client, options);
                say("ok");
            } else {
                say(answer(held, words));
            }
        }
        // Nothing is released or said on the way out, as in a death.
        Runtime.getRuntime().halt(0);
    }

    private static RedissonClient connect(URI url, Map<String, String> options) {
        Config config = new Config();
        if (options.containsKey("watchdog")) {
            config.setLockWatchdogTimeout(Long.parseLong(options.get("watchdog")));
        }
        if (options.containsKey("cluster")) {
            config.useClusterServers()
                    .addNodeAddress(url.getScheme() + "://" + url.getAuthority())
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1)
                    .setSubscriptionConnectionMinimumIdleSize(1);
            return Redisson.create(config);
        }
        String database = url.getPath().replace("/", "");
        config.useSingleServer()
                .setAddress(url.getScheme() + "://" + url.getAuthority())
                .setDatabase(database.isEmpty() ? 0 : Integer.parseInt(database))
                // Only to start sooner; the defaults open 24 of them.
                .setConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1);
        return Redisson.create(config);
    }

    private static String answer(Held held, String[] words) {
        try {
            return switch (words[0]) {
                case "acquire" -> {
                    String token = held.acquire(
                            words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
                    yield token == null ? "busy" : "ok " + token;
                }
                case "release" -> held.release() ? "ok" : "expired";
                case "extend" -> held.extend(Long.parseLong(words[1])) ? "ok" : "expired";
                case "holding" -> held.holding() ? "ok" : "expired";
                case "ttl" -> {
                    long left = held.holding() ? held.ttl() : Held.GONE;
                    yield left == Held.GONE ? "expired" : "ok " + left;
                }
                default -> {
                    String said = held.word(words);
                    yield said == null ? "error unknown command" : said;
                }
            };
        } catch (UnsupportedOperationException what) {
            return "error unsupported";
        } catch (Exception error) {
            return ("error " + error).replaceAll("\\s+", " ");
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
