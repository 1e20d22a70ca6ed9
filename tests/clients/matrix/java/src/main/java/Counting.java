import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Counts at 30 keys until it is told to stop, and prints what was acknowledged, and the errors. */
final class Counting {
    private final Map<String, Integer> acknowledged = new TreeMap<>();
    private final Map<String, Integer> errors = new TreeMap<>();

    /** Increments each key once; the futures are in the order of the keys. */
    interface Round {
        List<Future<Long>> increment(List<String> keys) throws Exception;
    }

    static void run(String client, Round round, Callable<Boolean> isStopped) throws Exception {
        var counting = new Counting();
        List<String> keys = IntStream.range(0, 30).mapToObj(n -> "count:" + client + ":" + n).toList();
        boolean stopped = false;
        while (!stopped) {
            List<Future<Long>> replies = round.increment(keys);
            for (int n = 0; n < keys.size(); n++) {
                try {
                    replies.get(n).get();
                    counting.acknowledged.merge(keys.get(n), 1, Integer::sum);
                } catch (Exception failed) {
                    counting.note(failed.getCause());
                }
            }
            try {
                stopped = isStopped.call();
            } catch (RuntimeException failed) {
                counting.note(failed);
            }
            Thread.sleep(20);
        }
        System.out.printf("{\"acknowledged\": %s, \"errors\": %s}%n", json(counting.acknowledged), json(counting.errors));
    }

    private void note(Throwable failed) {
        errors.merge(failed.toString(), 1, Integer::sum);
    }

    private static String json(Map<String, Integer> counts) {
        return counts.entrySet().stream()
            .map(count -> "\"" + count.getKey().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\": " + count.getValue())
            .collect(Collectors.joining(", ", "{", "}"));
    }

    /** The names of 20 channels, each with the message that it gets. */
    static Map<String, String> channels(String prefix) {
        return IntStream.range(0, 20).boxed().collect(Collectors.toMap(n -> prefix + n, String::valueOf));
    }
}
