// embedded-redis: starts servers by itself and ends them, as tests of Java programs do: Embedded PROGRAM.

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisException;
import redis.embedded.RedisServer;

public class Embedded {
  static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  static String failure(AutoCloseable action) {
    try {
      action.close();
      return "no error";
    } catch (Exception error) {
      return error.getClass().getSimpleName();
    }
  }

  public static void main(String[] args) throws Exception {
    File program = new File(args[0]);
    int port = freePort();
    List<String> lines = Collections.synchronizedList(new ArrayList<>());
    RedisServer server = RedisServer.newRedisServer()
        .executableProvider(() -> program).port(port).bind("127.0.0.1")
        .setting("save \"\"").setting("daemonize no").setting("maxmemory 128M").setting("appendonly no")
        .setting("slave-read-only yes").setting("client-output-buffer-limit slave 256mb 64mb 60")
        .soutListener(lines::add).build();
    server.start();
    System.out.println("active: " + server.isActive());
    System.out.println("it told that it is ready: " + lines.stream().anyMatch(line -> line.contains("Ready to accept connections")));
    try (Jedis jedis = new Jedis("127.0.0.1", port)) {
      System.out.println("ping: " + jedis.ping());
      System.out.println("memory: " + jedis.configGet("maxmemory"));
      for (int i = 0; i < 1000; i++) jedis.hset("hash", "field" + i, "" + i);
      System.out.println("fields: " + jedis.hlen("hash"));
    }

    StringBuilder told = new StringBuilder();
    RedisServer second = RedisServer.newRedisServer()
        .executableProvider(() -> program).port(port).bind("127.0.0.1").soutListener(told::append).build();
    System.out.println("on the same port: " + failure(second::start));
    System.out.println("it told why: " + told.toString().contains("Address already in use"));
    server.stop();
    System.out.println("active: " + server.isActive());
    System.out.println("after the end: " + failure(() -> {
      try (Jedis jedis = new Jedis("127.0.0.1", port)) {
        jedis.ping();
      }
    }));

    Path file = Files.createTempFile("embedded", ".conf");
    int other = freePort();
    Files.writeString(file, "port " + other + "\nbind 127.0.0.1\nrequirepass foobared\ndatabases 3\nsave \"\"\n");
    RedisServer fromFile = new RedisServer(other, List.of(program.getPath(), file.toString()), false);
    fromFile.start();
    try (Jedis jedis = new Jedis("127.0.0.1", other)) {
      System.out.println("without the password: " + failure(jedis::ping));
      System.out.println("with it: " + jedis.auth("foobared") + " " + jedis.configGet("databases"));
    } finally {
      fromFile.stop();
      Files.delete(file);
    }
  }
}
