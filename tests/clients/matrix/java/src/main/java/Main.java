import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Jedis and Lettuce: parts of the client matrix. Arguments: client, port and parts; for a cluster the ports of some nodes. With
 * files in the environment, Jedis uses TLS. Prints each part that is through.
 */
public final class Main {
    static final int PIPELINE_LEN = 10_000;

    /** A part of the matrix. */
    interface Part {
        void run() throws Exception;
    }

    private Main() {}

    static void equal(Object got, Object want) {
        if (!want.equals(got)) {
            throw new AssertionError("got " + got + ", not " + want);
        }
    }

    private static Map<String, Part> parts(String client, List<Integer> ports) throws Exception {
        return switch (client) {
            case "jedis" -> JedisParts.of(ports.get(0));
            case "lettuce" -> LettuceParts.of(ports.get(0));
            case "jedis-cluster" -> JedisClusterParts.of(ports);
            case "lettuce-cluster" -> LettuceClusterParts.of(ports);
            default -> throw new IllegalArgumentException(client);
        };
    }

    public static void main(String[] args) throws Exception {
        try {
            var parts = parts(args[0], Arrays.stream(args[1].split(",")).map(Integer::valueOf).toList());
            for (String name : Arrays.asList(args).subList(2, args.length)) {
                Part part = parts.get(name);
                if (part == null) {
                    System.err.println(args[0] + " has no part " + name);
                    System.exit(2);
                }
                part.run();
                System.out.println(name);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
