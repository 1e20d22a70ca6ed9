// node-redis in a cluster: parts of the client matrix. Arguments: the ports of some nodes, and the parts. Prints each that
// is through.
const assert = require('node:assert');
const { setTimeout: sleep } = require('node:timers/promises');
const { createCluster, defineScript } = require('redis');

const [ports, ...names] = process.argv.slice(2);
const addTo = defineScript({
  NUMBER_OF_KEYS: 1,
  FIRST_KEY_INDEX: 0,
  SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1]) -- node-redis",
  parseCommand(parser, key, number) {
    parser.pushKey(key);
    parser.push(String(number));
  },
  transformReply: undefined,
});
const client = createCluster({
  rootNodes: ports.split(',').map((port) => ({ url: `redis://127.0.0.1:${port}` })),
  scripts: { addTo },
});
// What a command meets is told by its promise.
client.on('error', () => {});
client.on('node-error', () => {});
const range = (length, make) => Array.from({ length }, (_, n) => make(n));

/** A listener, and a promise of what it got when it has heard of each channel. */
function listen(channels) {
  const got = {};
  let listener;
  const all = new Promise((resolve) => {
    listener = (message, channel) => {
      got[channel] = message;
      if (Object.keys(got).length === channels.length) resolve(got);
    };
  });
  return { listener, all };
}

const parts = {
  async keys() {
    for (let n = 0; n < 300; n += 1) {
      assert.strictEqual(await client.set(`k${n}`, n), 'OK');
      assert.strictEqual(await client.get(`k${n}`), String(n));
    }
    assert.strictEqual(await client.mSet({ '{t}a': '1', '{t}b': '2' }), 'OK');
    assert.deepStrictEqual(await client.mGet(['{t}a', '{t}b', '{t}c']), ['1', '2', null]);
    const found = new Set();
    for (const master of client.masters) {
      const node = await client.nodeClient(master);
      for await (const keys of node.scanIterator({ COUNT: 50 })) keys.forEach((key) => found.add(key));
    }
    assert.strictEqual(found.size, 302);
  },
  // An explicit pipeline is for one node; what is sent at the same time is a pipeline for each of them.
  async pipeline() {
    const one = client.multi();
    for (let n = 0; n < 1000; n += 1) one.incr('{p}n');
    assert.deepStrictEqual([...(await one.execAsPipeline())], range(1000, (n) => n + 1));
    const replies = await Promise.all(range(1000, (n) => client.incrBy(`p${n % 250}`, n)));
    const sums = {};
    replies.forEach((reply, n) => {
      sums[n % 250] = (sums[n % 250] ?? 0) + n;
      assert.strictEqual(reply, sums[n % 250]);
    });
  },
  async multi() {
    assert.deepStrictEqual([...(await client.multi().incr('{m}a').incr('{m}b').incr('{m}a').exec())], [1, 1, 2]);
    await assert.rejects(client.rename('a', 'b'), /CROSSSLOT /);
  },
  async script() {
    for (let n = 0; n < 20; n += 1) {
      assert.strictEqual(await client.addTo(`s${n}`, n), n);
      assert.strictEqual(await client.eval('return KEYS[1]', { keys: [`s${n}`] }), `s${n}`);
      assert.strictEqual(await client.fCall('add_to', { keys: [`s${n}`], arguments: ['7'] }), n + 7);
    }
  },
  async pubsub() {
    const channels = range(20, (n) => `c${n}`);
    const { listener, all } = listen(channels);
    await client.subscribe(channels, listener);
    const primaries = await Promise.all(client.masters.map((master) => client.nodeClient(master)));
    await Promise.all(channels.map((channel, n) => primaries[n % primaries.length].publish(channel, String(n))));
    assert.deepStrictEqual(await all, Object.fromEntries(channels.map((channel, n) => [channel, String(n)])));
    await client.unsubscribe(channels);
  },
  async shards() {
    const channels = range(20, (n) => `sc${n}`);
    const { listener, all } = listen(channels);
    for (const channel of channels) await client.sSubscribe(channel, listener);
    for (const [n, channel] of channels.entries()) assert.strictEqual(await client.sPublish(channel, String(n)), 1);
    assert.deepStrictEqual(await all, Object.fromEntries(channels.map((channel, n) => [channel, String(n)])));
    for (const channel of channels) await client.sUnsubscribe(channel);
  },
  // Counts at 30 keys until it is told to stop; prints what was acknowledged, and the errors.
  async count() {
    const acknowledged = {};
    const errors = {};
    const failed = (error) => { errors[error] = (errors[error] ?? 0) + 1; };
    for (let stopped = null; !stopped;) {
      await Promise.all(range(30, async (n) => {
        const key = `count:node-redis:${n}`;
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
  await client.connect();
  for (const name of names) {
    await parts[name]();
    console.log(name);
  }
  process.exitCode = 0;
  client.destroy();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
