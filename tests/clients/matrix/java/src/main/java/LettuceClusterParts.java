import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.cluster.pubsub.RedisClusterPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

final class LettuceClusterParts {
    private LettuceClusterParts() {}

    static Map<String, Main.Part> of(List<Integer> ports) {
        var client = RedisClusterClient.create(ports.stream().map(port -> RedisURI.create("127.0.0.1", port)).toList());
        // By default it looks at the nodes once only, and waits for a node that is gone without end.
        var refresh = ClusterTopologyRefreshOptions.builder()
            .enableAllAdaptiveRefreshTriggers()
            .adaptiveRefreshTriggersTimeout(Duration.ofMillis(200))
            .enablePeriodicRefresh(Duration.ofSeconds(1))
            .build();
        var timeout = TimeoutOptions.enabled(Duration.ofSeconds(5));
        client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh).timeoutOptions(timeout).build());
        var connection = client.connect();
        var commands = connection.sync();
        var async = connection.async();
        return Map.of(
            "keys", () -> {
                for (int n = 0; n < 300; n++) {
                    Main.equal(commands.set("k" + n, "" + n), "OK");
                    Main.equal(commands.get("k" + n), "" + n);
                }
                // Of many slots, which it splits.
                Main.equal(commands.mset(Map.of("a", "1", "b", "2")), "OK");
                Main.equal(commands.mget("a", "b", "c"),
                    List.of(KeyValue.just("a", "1"), KeyValue.just("b", "2"), KeyValue.empty("c")));
                Main.equal(commands.dbsize(), 302L);
                Set<String> found = new HashSet<>();
                ScanIterator.scan(commands, ScanArgs.Builder.limit(50)).forEachRemaining(found::add);
                Main.equal(found.size(), 302);
            },
            "pipeline", () -> {
                connection.setAutoFlushCommands(false);
                List<RedisFuture<Long>> replies = new ArrayList<>();
                for (int n = 0; n < 1000; n++) {
                    replies.add(async.incrby("p" + n % 250, n));
                }
                connection.flushCommands();
                connection.setAutoFlushCommands(true);
                Main.equal(LettuceFutures.awaitAll(Duration.ofSeconds(30), replies.toArray(new RedisFuture[0])), true);
                long[] sums = new long[250];
                for (int n = 0; n < 1000; n++) {
                    sums[n % 250] += n;
                    Main.equal(replies.get(n).get(), sums[n % 250]);
                }
            },
            // Transactions go to the slot's node.
            "multi", () -> {
                RedisClusterNode node = connection.getPartitions().getPartitionBySlot(SlotHash.getSlot("{m}"));
                var own = connection.getConnection(node.getNodeId()).sync();
                own.multi();
                own.incr("{m}a");
                own.incr("{m}b");
                own.incr("{m}a");
                Main.equal(own.exec().stream().toList(), List.of(1L, 1L, 2L));
                try {
                    commands.rename("a", "b");
                    throw new AssertionError("two slots");
                } catch (RedisCommandExecutionException twoSlots) {
                    Main.equal(twoSlots.getMessage().startsWith("CROSSSLOT "), true);
                }
            },
            "script", () -> {
                String source = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- Lettuce";
                String digest = commands.digest(source);
                int missed = 0;
                for (int n = 0; n < 20; n++) {
                    String[] keys = {"s" + n};
                    Long got;
                    try {
                        got = commands.evalsha(digest, ScriptOutputType.INTEGER, keys, "" + n);
                    } catch (RedisNoScriptException missing) {
                        missed++;
                        got = commands.eval(source, ScriptOutputType.INTEGER, keys, "" + n);
                    }
                    Main.equal(got, (long) n);
                    Main.equal(commands.eval("return KEYS[1]", ScriptOutputType.VALUE, keys), keys[0]);
                    Main.equal(commands.fcall("add_to", ScriptOutputType.INTEGER, keys, "7"), n + 7L);
                }
                Main.equal(missed, 3);
            },
            "pubsub", () -> {
                var subscriber = client.connectPubSub();
                Map<String, String> want = Counting.channels("c");
                var heard = new Heard(want.size());
                subscriber.addListener(heard);
                subscriber.sync().subscribe(want.keySet().toArray(new String[0]));
                int next = 0;
                for (var message : want.entrySet()) {
                    var node = connection.getConnection("127.0.0.1", ports.get(next++ % ports.size()));
                    node.sync().publish(message.getKey(), message.getValue());
                }
                Main.equal(heard.all(), want);
            },
            "shards", () -> {
                var subscriber = client.connectPubSub();
                Map<String, String> want = Counting.channels("sc");
                var heard = new Heard(want.size());
                subscriber.addListener(heard);
                for (var message : want.entrySet()) {
                    subscriber.sync().ssubscribe(message.getKey());
                    Main.equal(commands.spublish(message.getKey(), message.getValue()), 1L);
                }
                Main.equal(heard.all(), want);
            },
            "count", () -> Counting.run("Lettuce", keys -> {
                List<Future<Long>> replies = new ArrayList<>();
                keys.forEach(key -> replies.add(async.incr(key).toCompletableFuture()));
                return replies;
            }, () -> commands.exists("stop") == 1));
    }

    /** What a subscriber gets. */
    private static final class Heard extends RedisClusterPubSubAdapter<String, String> {
        private final Map<String, String> messages = new ConcurrentHashMap<>();
        private final CountDownLatch missing;

        Heard(int count) {
            missing = new CountDownLatch(count);
        }

        private void note(String channel, String message) {
            messages.put(channel, message);
            missing.countDown();
        }

        @Override
        public void message(RedisClusterNode node, String channel, String message) {
            note(channel, message);
        }

        @Override
        public void smessage(RedisClusterNode node, String channel, String message) {
            note(channel, message);
        }

        Map<String, String> all() throws InterruptedException {
            missing.await(10, TimeUnit.SECONDS);
            return messages;
        }
    }
}
