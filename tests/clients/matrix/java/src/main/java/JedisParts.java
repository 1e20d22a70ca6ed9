import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.SetParams;

final class JedisParts {
    private JedisParts() {}

    private static Jedis connect(int port) throws Exception {
        var config = DefaultJedisClientConfig.builder();
        if (System.getenv("TLS_CA") != null) {
            config.ssl(true).sslSocketFactory(Tls.context().getSocketFactory());
        }
        return new Jedis(new HostAndPort("127.0.0.1", port), config.build());
    }

    static Map<String, Main.Part> of(int port) throws Exception {
        Jedis client = connect(port);
        return Map.of(
            "strings", () -> {
                Main.equal(client.set("k", "v", SetParams.setParams().ex(100)), "OK");
                Main.equal(client.mget("k", "none"), Arrays.asList("v", null));
                Main.equal(client.incrBy("n", 5), 5L);
            },
            "types", () -> {
                Main.equal(client.rpush("l", "1", "2", "3"), 3L);
                Main.equal(client.lrange("l", 0, -1), List.of("1", "2", "3"));
                Main.equal(client.hset("h", Map.of("a", "1", "b", "2")), 2L);
                Main.equal(client.hgetAll("h"), Map.of("a", "1", "b", "2"));
                Main.equal(client.sadd("s", "x", "y"), 2L);
                Main.equal(client.zadd("z", 1.5, "m"), 1L);
                Main.equal(client.zscore("z", "m"), 1.5);
                StreamEntryID id = client.xadd("x", StreamEntryID.NEW_ENTRY, Map.of("f", "v"));
                Main.equal(client.xrange("x", "-", "+").get(0).getID(), id);
                Main.equal(client.setbit("b", 3, true), false);
                Main.equal(client.pfadd("p", "a", "b"), 1L);
                Main.equal(client.geoadd("g", 13.361389, 38.115556, "Palermo"), 1L);
            },
            "pipeline", () -> {
                var pipeline = client.pipelined();
                for (int n = 0; n < Main.PIPELINE_LEN; n++) {
                    pipeline.incr("n");
                }
                List<Object> replies = pipeline.syncAndReturnAll();
                Main.equal(replies.size(), Main.PIPELINE_LEN);
                for (int n = 0; n < Main.PIPELINE_LEN; n++) {
                    Main.equal(replies.get(n), n + 1L);
                }
            },
            "multi", () -> {
                client.watch("n");
                var transaction = client.multi();
                transaction.incr("n");
                transaction.incr("n");
                Main.equal(transaction.exec(), List.of(1L, 2L));
            },
            "script", () -> {
                String sha = client.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
                Main.equal(client.evalsha(sha, List.of("n"), List.of("7")), 7L);
            },
            // Counts at whatever is the primary until it is told to stop; the port is that of a Sentinel.
            "sentinel", () -> {
                while (true) {
                    try (var pool = new JedisSentinelPool("group", Set.of("127.0.0.1:" + port))) {
                        while (true) {
                            try (Jedis primary = pool.getResource()) {
                                primary.incr("count:Jedis");
                                if (primary.get("stop") != null) {
                                    return;
                                }
                            } catch (JedisException gone) {
                                Thread.sleep(100);
                            }
                            Thread.sleep(20);
                        }
                    } catch (JedisException noPrimary) {
                        Thread.sleep(100);
                    }
                }
            },
            "pubsub", () -> {
                var subscribed = new CompletableFuture<Void>();
                var message = new CompletableFuture<List<String>>();
                var subscription = new JedisPubSub() {
                    @Override
                    public void onSubscribe(String channel, int count) {
                        subscribed.complete(null);
                    }

                    @Override
                    public void onMessage(String channel, String payload) {
                        message.complete(List.of(channel, payload));
                    }
                };
                Jedis subscriber = connect(port);
                var thread = new Thread(() -> subscriber.subscribe(subscription, "c"));
                thread.setDaemon(true);
                thread.start();
                subscribed.get(10, TimeUnit.SECONDS);
                Main.equal(client.publish("c", "hello"), 1L);
                Main.equal(message.get(10, TimeUnit.SECONDS), List.of("c", "hello"));
            });
    }
}
