// ioredis in a cluster: parts of the client matrix. Arguments: the ports of some nodes, and the parts. Prints each that is
// through.
const assert = require('node:assert');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const [ports, ...names] = process.argv.slice(2);
const nodes = ports.split(',').map((port) => ({ host: '127.0.0.1', port: Number(port) }));
const open = (options) => new Redis.Cluster(nodes, options);
const client = open();
const range = (length, make) => Array.from({ length }, (_, n) => make(n));

const parts = {
  async keys() {
    for (let n = 0; n < 300; n += 1) {
      assert.strictEqual(await client.set(`k${n}`, n), 'OK');
      assert.strictEqual(await client.get(`k${n}`), String(n));
    }
    assert.strictEqual(await client.mset({ '{t}a': 1, '{t}b': 2 }), 'OK');
    assert.deepStrictEqual(await client.mget('{t}a', '{t}b', '{t}c'), ['1', '2', null]);
    const found = new Set();
    for (const node of client.nodes('master')) {
      for await (const keys of node.scanStream({ count: 50 })) keys.forEach((key) => found.add(key));
    }
    assert.strictEqual(found.size, 302);
  },
  // An explicit pipeline is for one node; what is sent at the same time is a pipeline for each of them.
  async pipeline() {
    const one = client.pipeline();
    for (let n = 0; n < 1000; n += 1) one.incr('{p}n');
    assert.deepStrictEqual(await one.exec(), range(1000, (n) => [null, n + 1]));
    const pipelined = open({ enableAutoPipelining: true });
    const replies = await Promise.all(range(1000, (n) => pipelined.incrby(`p${n % 250}`, n)));
    const sums = {};
    replies.forEach((reply, n) => {
      sums[n % 250] = (sums[n % 250] ?? 0) + n;
      assert.strictEqual(reply, sums[n % 250]);
    });
    pipelined.disconnect();
  },
  async multi() {
    const replies = await client.multi().incr('{m}a').incr('{m}b').incr('{m}a').exec();
    assert.deepStrictEqual(replies, [[null, 1], [null, 1], [null, 2]]);
    await assert.rejects(client.rename('a', 'b'), /^ReplyError: CROSSSLOT /);
  },
  async script() {
    client.defineCommand('addTo', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- ioredis" });
    for (let n = 0; n < 20; n += 1) {
      assert.strictEqual(await client.addTo(`s${n}`, n), n);
      assert.strictEqual(await client.eval('return KEYS[1]', 1, `s${n}`), `s${n}`);
      assert.strictEqual(await client.fcall('add_to', 1, `s${n}`, 7), n + 7);
    }
  },
  async pubsub() {
    const channels = range(20, (n) => `c${n}`);
    const got = {};
    const all = new Promise((resolve) => client.on('message', (channel, message) => {
      got[channel] = message;
      if (Object.keys(got).length === channels.length) resolve();
    }));
    await client.subscribe(...channels);
    const primaries = client.nodes('master');
    await Promise.all(channels.map((channel, n) => primaries[n % primaries.length].publish(channel, n)));
    await all;
    assert.deepStrictEqual(Object.keys(got).sort(), [...channels].sort());
    channels.forEach((channel, n) => assert.strictEqual(got[channel], String(n)));
  },
  async shards() {
    const subscriber = open({ shardedSubscribers: true });
    const channels = range(20, (n) => `sc${n}`);
    const got = {};
    const all = new Promise((resolve) => subscriber.on('smessage', (channel, message) => {
      got[channel] = message;
      if (Object.keys(got).length === channels.length) resolve();
    }));
    for (const channel of channels) await subscriber.ssubscribe(channel);
    for (const [n, channel] of channels.entries()) assert.strictEqual(await client.spublish(channel, n), 1);
    await all;
    channels.forEach((channel, n) => assert.strictEqual(got[channel], String(n)));
    subscriber.disconnect();
  },
  // Counts at 30 keys until it is told to stop; prints what was acknowledged, and the errors.
  async count() {
    const acknowledged = {};
    const errors = {};
    const failed = (error) => { errors[error] = (errors[error] ?? 0) + 1; };
    for (let stopped = null; !stopped;) {
      await Promise.all(range(30, async (n) => {
        const key = `count:ioredis:${n}`;
        await client.incr(key).then(() => { acknowledged[key] = (acknowledged[key] ?? 0) + 1; }, failed);
      }));
      stopped = await client.get('stop').catch(failed);
      await sleep(20);
    }
    console.log(JSON.stringify({ acknowledged, errors }));
  },
};

// Node ends with 0 when nothing is left to wait for, even where a part is not through.
process.exitCode = 1;
(async () => {
  for (const name of names) {
    await parts[name]();
    console.log(name);
  }
  process.exitCode = 0;
  client.disconnect();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
