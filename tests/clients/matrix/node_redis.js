// node-redis: one part of the client matrix. Arguments: port and part. What it is told without waiting it pipelines.
const assert = require('node:assert');
const { createClient } = require('redis');

const [port, part] = process.argv.slice(2);
const open = (options) => createClient({ url: `redis://127.0.0.1:${port}`, ...options }).connect();
let client;

const parts = {
  async strings() {
    assert.strictEqual(await client.set('k', 'v', { EX: 100 }), 'OK');
    assert.deepStrictEqual(await client.mGet(['k', 'none']), ['v', null]);
    assert.strictEqual(await client.incrBy('n', 5), 5);
  },
  async types() {
    assert.strictEqual(await client.rPush('l', ['1', '2', '3']), 3);
    assert.deepStrictEqual(await client.lRange('l', 0, -1), ['1', '2', '3']);
    assert.strictEqual(await client.hSet('h', { a: '1', b: '2' }), 2);
    assert.deepStrictEqual({ ...(await client.hGetAll('h')) }, { a: '1', b: '2' });
    assert.strictEqual(await client.sAdd('s', ['x', 'y']), 2);
    assert.strictEqual(await client.zAdd('z', { score: 1.5, value: 'm' }), 1);
    assert.strictEqual(await client.zScore('z', 'm'), 1.5);
    assert.ok(await client.xAdd('x', '*', { f: 'v' }));
    assert.strictEqual(await client.setBit('b', 3, 1), 0);
    assert.strictEqual(await client.pfAdd('p', ['a', 'b']), 1);
    assert.strictEqual(await client.geoAdd('g', { longitude: 13.361389, latitude: 38.115556, member: 'Palermo' }), 1);
  },
  async resp3() {
    const other = await open({ RESP: 3 });
    await other.hSet('h', { a: '1' });
    assert.deepStrictEqual({ ...(await other.hGetAll('h')) }, { a: '1' });
    other.destroy();
  },
  async pipeline() {
    const pipeline = client.multi();
    for (let n = 0; n < 10_000; n += 1) pipeline.incr('n');
    const replies = await pipeline.execAsPipeline();
    assert.deepStrictEqual([...replies], Array.from({ length: 10_000 }, (_, n) => n + 1));
  },
  async auto() {
    const replies = await Promise.all(Array.from({ length: 10_000 }, () => client.incr('n')));
    assert.deepStrictEqual(replies, Array.from({ length: 10_000 }, (_, n) => n + 1));
  },
  async multi() {
    await client.watch('n');
    assert.deepStrictEqual([...(await client.multi().incr('n').incr('n').exec())], [1, 2]);
  },
  async script() {
    const reply = await client.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", { keys: ['n'], arguments: ['7'] });
    assert.strictEqual(reply, 7);
  },
  async pubsub() {
    const subscriber = await open();
    const message = new Promise((resolve) => { subscriber.subscribe('c', resolve); });
    while ((await client.publish('c', 'hello')) === 0);
    assert.strictEqual(await message, 'hello');
    subscriber.destroy();
  },
};

// Node ends with 0 when nothing is left to wait for, even where the part is not through.
process.exitCode = 1;
(async () => {
  client = await open();
  await parts[part]();
  process.exitCode = 0;
  client.destroy();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
