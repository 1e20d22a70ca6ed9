// ioredis: one part of the client matrix. Arguments: port and part. With files in the environment, over TLS.
const assert = require('node:assert');
const fs = require('node:fs');
const Redis = require('ioredis');

const [port, part] = process.argv.slice(2);
const { TLS_CA, TLS_CERT, TLS_KEY } = process.env;
const options = { port: Number(port), host: '127.0.0.1', maxRetriesPerRequest: 3 };
if (TLS_CA) {
  const read = (path) => path && fs.readFileSync(path);
  options.tls = { ca: read(TLS_CA), cert: read(TLS_CERT), key: read(TLS_KEY) };
  // The first failure is told, and is the last one.
  Object.assign(options, { retryStrategy: null, maxRetriesPerRequest: 0 });
}
const client = new Redis(options);
client.on('error', (error) => console.error(error.message));

const parts = {
  async strings() {
    assert.strictEqual(await client.set('k', 'v', 'EX', 100), 'OK');
    assert.deepStrictEqual(await client.mget('k', 'none'), ['v', null]);
    assert.strictEqual(await client.incrby('n', 5), 5);
  },
  async types() {
    assert.strictEqual(await client.rpush('l', 1, 2, 3), 3);
    assert.deepStrictEqual(await client.lrange('l', 0, -1), ['1', '2', '3']);
    assert.strictEqual(await client.hset('h', { a: 1, b: 2 }), 2);
    assert.deepStrictEqual(await client.hgetall('h'), { a: '1', b: '2' });
    assert.strictEqual(await client.sadd('s', 'x', 'y'), 2);
    assert.strictEqual(await client.zadd('z', 1.5, 'm'), 1);
    assert.strictEqual(await client.zscore('z', 'm'), '1.5');
    assert.ok(await client.xadd('x', '*', 'f', 'v'));
    assert.strictEqual(await client.setbit('b', 3, 1), 0);
    assert.strictEqual(await client.pfadd('p', 'a', 'b'), 1);
    assert.strictEqual(await client.geoadd('g', 13.361389, 38.115556, 'Palermo'), 1);
  },
  async pipeline() {
    const pipeline = client.pipeline();
    for (let n = 0; n < 10_000; n += 1) pipeline.incr('n');
    const replies = await pipeline.exec();
    assert.deepStrictEqual(replies.map(([, reply]) => reply), Array.from({ length: 10_000 }, (_, n) => n + 1));
  },
  async auto() {
    const pipelined = new Redis({ ...options, enableAutoPipelining: true });
    const replies = await Promise.all(Array.from({ length: 10_000 }, () => pipelined.incr('n')));
    assert.strictEqual(Math.max(...replies), 10_000);
    pipelined.disconnect();
  },
  async multi() {
    await client.watch('n');
    assert.deepStrictEqual(await client.multi().incr('n').incr('n').exec(), [[null, 1], [null, 2]]);
  },
  async script() {
    client.defineCommand('addTo', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
    assert.strictEqual(await client.addTo('n', 7), 7);
  },
  async pubsub() {
    const subscriber = new Redis(options);
    const message = new Promise((resolve) => subscriber.on('message', (...got) => resolve(got)));
    await subscriber.subscribe('c');
    assert.strictEqual(await client.publish('c', 'hello'), 1);
    assert.deepStrictEqual(await message, ['c', 'hello']);
    subscriber.disconnect();
  },
  // Counts at whatever is the primary until it is told to stop; `port` is that of a Sentinel.
  async sentinel() {
    const primary = new Redis({ sentinels: [{ host: '127.0.0.1', port: Number(port) }], name: 'group', maxRetriesPerRequest: 1 });
    primary.on('error', () => {});
    for (;;) {
      try {
        await primary.incr('count:ioredis');
        if (await primary.get('stop')) break;
      } catch {
        // The primary is gone.
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    primary.disconnect();
  },
};

// Node ends with 0 when nothing is left to wait for, even where the part is not through.
process.exitCode = 1;
parts[part]().then(() => {
  process.exitCode = 0;
  client.disconnect();
}, (error) => {
  console.error(error);
  process.exit(1);
});
