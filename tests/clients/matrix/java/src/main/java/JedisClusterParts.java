import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisClusterOperationException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.util.JedisClusterCRC16;

final class JedisClusterParts {
    private JedisClusterParts() {}

    static Map<String, Main.Part> of(List<Integer> ports) {
        Set<HostAndPort> nodes = ports.stream().map(port -> new HostAndPort("127.0.0.1", port)).collect(Collectors.toSet());
        var client = new JedisCluster(nodes);
        return Map.of(
            "keys", () -> {
                for (int n = 0; n < 300; n++) {
                    Main.equal(client.set("k" + n, "" + n), "OK");
                    Main.equal(client.get("k" + n), "" + n);
                }
                Main.equal(client.mset("{t}a", "1", "{t}b", "2"), "OK");
                Main.equal(client.mget("{t}a", "{t}b", "{t}c"), Arrays.asList("1", "2", null));
                Set<String> found = new HashSet<>();
                client.scanIteration(50, "*").collect(found);
                Main.equal(found.size(), 302);
            },
            "pipeline", () -> {
                List<Response<Long>> replies = new ArrayList<>();
                try (ClusterPipeline pipeline = client.pipelined()) {
                    for (int n = 0; n < 1000; n++) {
                        replies.add(pipeline.incrBy("p" + n % 250, n));
                    }
                }
                long[] sums = new long[250];
                for (int n = 0; n < 1000; n++) {
                    sums[n % 250] += n;
                    Main.equal(replies.get(n).get(), sums[n % 250]);
                }
            },
            // It has no transactions in a cluster, so they go to the slot's node.
            "multi", () -> {
                int slot = JedisClusterCRC16.getSlot("{m}");
                try (var own = new Jedis(client.getConnectionFromSlot(slot))) {
                    var transaction = own.multi();
                    transaction.incr("{m}a");
                    transaction.incr("{m}b");
                    transaction.incr("{m}a");
                    Main.equal(transaction.exec(), List.of(1L, 1L, 2L));
                }
                try {
                    client.rename("a", "b");
                    throw new AssertionError("two slots");
                } catch (JedisClusterOperationException twoSlots) {
                    Main.equal(twoSlots.getMessage(), "Keys must belong to same hashslot.");
                }
            },
            "script", () -> {
                String source = "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- Jedis";
                String digest = client.scriptLoad(source, "s0");
                int missed = 0;
                for (int n = 0; n < 20; n++) {
                    String key = "s" + n;
                    List<String> arguments = List.of("" + n);
                    try {
                        Main.equal(client.evalsha(digest, List.of(key), arguments), (long) n);
                    } catch (JedisNoScriptException missing) {
                        missed++;
                        Main.equal(client.eval(source, List.of(key), arguments), (long) n);
                    }
                    Main.equal(client.eval("return KEYS[1]", List.of(key), List.of()), key);
                    Main.equal(client.fcall("add_to", List.of(key), List.of("7")), n + 7L);
                }
                Main.equal(missed, 2);
            },
            "pubsub", () -> {
                Map<String, String> want = Counting.channels("c");
                Map<String, String> got = new ConcurrentHashMap<>();
                var subscribed = new CountDownLatch(want.size());
                var heard = new CountDownLatch(want.size());
                var subscription = new JedisPubSub() {
                    @Override
                    public void onSubscribe(String channel, int count) {
                        subscribed.countDown();
                    }

                    @Override
                    public void onMessage(String channel, String payload) {
                        got.put(channel, payload);
                        heard.countDown();
                    }
                };
                background(() -> client.subscribe(subscription, want.keySet().toArray(new String[0])));
                subscribed.await(10, TimeUnit.SECONDS);
                int next = 0;
                for (var message : want.entrySet()) {
                    try (var node = new Jedis("127.0.0.1", ports.get(next++ % ports.size()))) {
                        node.publish(message.getKey(), message.getValue());
                    }
                }
                heard.await(10, TimeUnit.SECONDS);
                Main.equal(got, want);
            },
            // One subscription is for one slot.
            "shards", () -> {
                for (var message : Counting.channels("sc").entrySet()) {
                    var subscribed = new CompletableFuture<Void>();
                    var got = new CompletableFuture<String>();
                    var subscription = new JedisShardedPubSub() {
                        @Override
                        public void onSSubscribe(String channel, int count) {
                            subscribed.complete(null);
                        }

                        @Override
                        public void onSMessage(String channel, String payload) {
                            got.complete(payload);
                            sunsubscribe();
                        }
                    };
                    background(() -> client.ssubscribe(subscription, message.getKey()));
                    subscribed.get(10, TimeUnit.SECONDS);
                    Main.equal(client.spublish(message.getKey(), message.getValue()), 1L);
                    Main.equal(got.get(10, TimeUnit.SECONDS), message.getValue());
                }
            },
            "count", () -> Counting.run("Jedis", keys -> {
                List<Future<Long>> replies = new ArrayList<>();
                for (String key : keys) {
                    try {
                        replies.add(CompletableFuture.completedFuture(client.incr(key)));
                    } catch (RuntimeException failed) {
                        replies.add(CompletableFuture.failedFuture(failed));
                    }
                }
                return replies;
            }, () -> client.exists("stop")));
    }

    private static void background(Runnable task) {
        var thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
    }
}
