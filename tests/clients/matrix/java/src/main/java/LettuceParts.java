import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

final class LettuceParts {
    private LettuceParts() {}

    /** Sends a pipeline; `flushEach` leaves it to the client when to write. */
    private static void pipeline(RedisClient client, boolean flushEach) throws Exception {
        var connection = client.connect();
        var async = connection.async();
        connection.setAutoFlushCommands(flushEach);
        List<RedisFuture<Long>> replies = new ArrayList<>();
        for (int n = 0; n < Main.PIPELINE_LEN; n++) {
            replies.add(async.incr("n"));
        }
        connection.flushCommands();
        LettuceFutures.awaitAll(Duration.ofSeconds(30), replies.toArray(new RedisFuture[0]));
        for (int n = 0; n < Main.PIPELINE_LEN; n++) {
            Main.equal(replies.get(n).get(), n + 1L);
        }
    }

    static Map<String, Main.Part> of(int port) {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
        RedisCommands<String, String> commands = client.connect().sync();
        return Map.of(
            "strings", () -> {
                Main.equal(commands.set("k", "v", SetArgs.Builder.ex(100)), "OK");
                Main.equal(commands.mget("k", "none"), List.of(KeyValue.just("k", "v"), KeyValue.empty("none")));
                Main.equal(commands.incrby("n", 5), 5L);
            },
            "types", () -> {
                Main.equal(commands.rpush("l", "1", "2", "3"), 3L);
                Main.equal(commands.lrange("l", 0, -1), List.of("1", "2", "3"));
                Main.equal(commands.hset("h", Map.of("a", "1", "b", "2")), 2L);
                Main.equal(commands.hgetall("h"), Map.of("a", "1", "b", "2"));
                Main.equal(commands.sadd("s", "x", "y"), 2L);
                Main.equal(commands.zadd("z", 1.5, "m"), 1L);
                Main.equal(commands.zscore("z", "m"), 1.5);
                commands.xadd("x", "f", "v");
                Main.equal(commands.xlen("x"), 1L);
                Main.equal(commands.setbit("b", 3, 1), 0L);
                Main.equal(commands.pfadd("p", "a", "b"), 1L);
                Main.equal(commands.geoadd("g", 13.361389, 38.115556, "Palermo"), 1L);
            },
            "pipeline", () -> pipeline(client, false),
            "auto", () -> pipeline(client, true),
            "multi", () -> {
                commands.watch("n");
                commands.multi();
                commands.incr("n");
                commands.incr("n");
                Main.equal(commands.exec().stream().toList(), List.of(1L, 2L));
            },
            "script", () -> {
                String sha = commands.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
                Main.equal(commands.evalsha(sha, ScriptOutputType.INTEGER, new String[] {"n"}, "7"), 7L);
            },
            "pubsub", () -> {
                var message = new CompletableFuture<List<String>>();
                var subscriber = client.connectPubSub();
                subscriber.addListener(new RedisPubSubAdapter<>() {
                    @Override
                    public void message(String channel, String payload) {
                        message.complete(List.of(channel, payload));
                    }
                });
                subscriber.sync().subscribe("c");
                Main.equal(commands.publish("c", "hello"), 1L);
                Main.equal(message.get(10, TimeUnit.SECONDS), List.of("c", "hello"));
            });
    }
}
