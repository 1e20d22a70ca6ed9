// Locks, a semaphore and a latch that threads of several clients share, as in a service with several processes.

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Locks {
  static int counter;

  static RedissonClient client(String port) {
    Config config = new Config();
    config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setConnectionMinimumIdleSize(2).setConnectionPoolSize(8);
    return Redisson.create(config);
  }

  public static void main(String[] args) throws Exception {
    List<RedissonClient> clients = List.of(client(args[0]), client(args[0]));
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      RLock lock = clients.get(i % 2).getLock("lock");
      threads.add(new Thread(() -> {
        for (int n = 0; n < 25; n++) {
          lock.lock();
          try {
            // Not atomic by itself: a lost step shows that two threads were inside.
            int seen = counter;
            Thread.yield();
            counter = seen + 1;
          } finally {
            lock.unlock();
          }
        }
      }));
    }
    for (Thread thread : threads) thread.start();
    for (Thread thread : threads) thread.join();
    System.out.println("counted under the lock: " + counter);

    RLock mine = clients.get(0).getLock("held");
    RLock other = clients.get(1).getLock("held");
    System.out.println("taken: " + mine.tryLock(0, 60, TimeUnit.SECONDS));
    System.out.println("taken again by its holder: " + mine.tryLock(0, 60, TimeUnit.SECONDS) + " " + mine.getHoldCount());
    boolean[] got = new boolean[1];
    Thread waiter = new Thread(() -> {
      try {
        got[0] = other.tryLock(50, 60_000, TimeUnit.MILLISECONDS);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    });
    waiter.start();
    waiter.join();
    System.out.println("taken by another: " + got[0]);
    mine.unlock();
    mine.unlock();
    System.out.println("locked at the end: " + mine.isLocked());

    RLock both = clients.get(0).getFairLock("fair");
    both.lock(30, TimeUnit.SECONDS);
    System.out.println("fair: " + both.isHeldByCurrentThread());
    both.unlock();

    RPermitExpirableSemaphore semaphore = clients.get(0).getPermitExpirableSemaphore("permits");
    semaphore.trySetPermits(2);
    String first = semaphore.acquire(60, TimeUnit.SECONDS);
    semaphore.acquire(60, TimeUnit.SECONDS);
    System.out.println("a third permit: " + semaphore.tryAcquire(20, 60_000, TimeUnit.MILLISECONDS));
    semaphore.release(first);
    System.out.println("permits: " + semaphore.availablePermits());
    for (RedissonClient client : clients) client.shutdown();
  }
}
