// Contenders for the locks of Redisson: a thread each, one client for all. The protocol is
// described in bench/src/contended/contender.rs.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Contend {
    public static void main(String[] args) throws Exception {
        String url = args[0];
        String name = args[1];
        int contenders = Integer.parseInt(args[2]);
        long sectionNanos = Long.parseLong(args[3]) * 1_000;
        long ttlMillis = Long.parseLong(args[4]);
        boolean fair = args[5].equals("fair");
        int firstOwner = Integer.parseInt(args[6]);

        Config config = new Config();
        config.useSingleServer().setAddress(url);
        RedissonClient client = Redisson.create(config);
        client.getBucket("warm").isExists();
        System.out.println("ready");
        String[] span = new BufferedReader(new InputStreamReader(System.in)).readLine().split(" ");
        long start = Long.parseLong(span[0]);
        long end = Long.parseLong(span[1]);

        AtomicLong failed = new AtomicLong();
        List<List<long[]>> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int index = 0; index < contenders; index++) {
            RLock lock = fair ? client.getFairLock(name) : client.getLock(name);
            int owner = firstOwner + index;
            List<long[]> grants = new ArrayList<>();
            all.add(grants);
            threads.add(new Thread(() -> {
                for (long early = start - now(); early > 0; early = start - now()) {
                    LockSupport.parkNanos(early);
                }
                for (long called = now(); called < end; called = now()) {
                    lock.lock(ttlMillis, TimeUnit.MILLISECONDS);
                    long acquired = now();
                    if (sectionNanos > 0) {
                        LockSupport.parkNanos(sectionNanos);
                    }
                    long releasing = now();
                    try {
                        lock.unlock();
                    } catch (RuntimeException lost) {
                        failed.incrementAndGet();
                    }
                    grants.add(new long[] {owner, called, acquired, releasing, now()});
                }
            }));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        StringBuilder text = new StringBuilder();
        for (List<long[]> grants : all) {
            for (long[] grant : grants) {
                text.append("grant");
                for (long number : grant) {
                    text.append(' ').append(number);
                }
                text.append('\n');
            }
        }
        System.out.print(text.append("failed ").append(failed).append('\n'));
        System.out.flush();
        System.exit(0);
    }

    /** CLOCK_MONOTONIC on Linux. */
    private static long now() {
        return System.nanoTime();
    }
}
