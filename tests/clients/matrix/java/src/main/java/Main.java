/** Jedis and Lettuce: one part of the client matrix. Arguments: client, port and part. With files in the environment, Jedis uses TLS. */
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

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        try {
            var parts = args[0].equals("jedis") ? JedisParts.of(port) : LettuceParts.of(port);
            Part part = parts.get(args[2]);
            if (part == null) {
                System.err.println(args[0] + " has no part " + args[2]);
                System.exit(2);
            }
            part.run();
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
