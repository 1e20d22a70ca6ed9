'use strict';
// ioredis: ordinary calls, pipelines, auto-pipelining. Modules are found through NODE_PATH.

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { after, before, beforeEach, test } = require('node:test');
const Redis = require('ioredis');

const fallback = path.join(__dirname, '..', '..', 'target', 'release', 'onrush-server');
const binary = process.env.ONRUSH_SERVER_BIN || fallback;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onrush-ioredis-'));
let server;
let port;
let client;

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const found = probe.address().port;
      probe.close(() => resolve(found));
    });
  });
}

before(async () => {
  port = await freePort();
  const args = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder];
  if (!path.basename(binary).startsWith('redis-server')) args.push('--workers', '2');
  server = spawn(binary, args.map(String), { stdio: 'ignore' });
  client = new Redis({ port, host: '127.0.0.1', retryStrategy: () => 10, maxRetriesPerRequest: 500 });
  client.on('error', () => {}); // refused until the server listens; the retries go on
  assert.strictEqual(await client.ping(), 'PONG');
});

after(() => {
  client.disconnect();
  server.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => client.flushall());

test('ordinary calls', async () => {
  assert.strictEqual(await client.set('a', '1', 'EX', 100), 'OK');
  assert.strictEqual(await client.get('a'), '1');
  assert.ok((await client.ttl('a')) > 90);
  assert.strictEqual(await client.get('nothing'), null);
  assert.deepStrictEqual(await client.mget('a', 'nothing'), ['1', null]);
  await assert.rejects(client.call('NOSUCH'), /unknown command/);
  assert.match(await client.info(), /redis_version:7/);
});

test('a pipeline of 100,000 INCR', async () => {
  const count = 100_000;
  const pipeline = client.pipeline();
  for (let i = 0; i < count; i++) pipeline.incr('n');
  const replies = await pipeline.exec();
  assert.strictEqual(replies.length, count);
  replies.forEach(([error, value], i) => {
    assert.strictEqual(error, null);
    assert.strictEqual(value, i + 1);
  });
});

test('an error in a pipeline takes its place only', async () => {
  const replies = await client.pipeline().set('a', 'x').incr('a').get('a').exec();
  assert.deepStrictEqual(replies[0], [null, 'OK']);
  assert.match(replies[1][0].message, /not an integer/);
  assert.deepStrictEqual(replies[2], [null, 'x']);
});

test('auto-pipelining', async () => {
  const auto = new Redis({ port, host: '127.0.0.1', enableAutoPipelining: true });
  const calls = [];
  for (let i = 0; i < 10_000; i++) calls.push(auto.set(`key:${i}`, i), auto.get(`key:${i}`));
  const replies = await Promise.all(calls);
  replies.forEach((reply, i) => assert.strictEqual(reply, i % 2 ? String((i - 1) / 2) : 'OK'));
  auto.disconnect();
});

test('binary values and scan streams', async () => {
  const value = Buffer.from(Array.from({ length: 70_000 }, (_, i) => i & 255));
  await client.set('binary', value);
  assert.ok(value.equals(await client.getBuffer('binary')));
  const pairs = Array.from({ length: 1000 }, (_, i) => [`key:${i}`, String(i)]).flat();
  await client.mset(...pairs);
  const seen = new Set();
  for await (const keys of client.scanStream({ match: 'key:*', count: 50 })) keys.forEach((k) => seen.add(k));
  assert.strictEqual(seen.size, 1000);
});

// So many calls in a window; the answer is how many are left, or -1.
const LIMITER = `
  local count = redis.call('INCR', KEYS[1])
  if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return math.max(tonumber(ARGV[1]) - count, -1)`;

function withLimiter() {
  const own = new Redis({ port, host: '127.0.0.1' });
  own.defineCommand('limit', { numberOfKeys: 1, lua: LIMITER });
  return own;
}

// How often commands were called so far.
async function calls(...names) {
  const stats = await client.info('commandstats');
  return names.map((name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] || 0));
}

test('a defined command in a pipeline, whether or not the server knows its script', async () => {
  const own = withLimiter();
  const decide = (times) => {
    const pipeline = own.pipeline();
    for (let i = 0; i < times; i++) pipeline.set(`other:${i}`, i).limit('user', 1000, 60_000);
    return pipeline.exec();
  };
  await client.script('FLUSH');
  const first = await decide(1000);
  first.forEach(([error, reply], i) => {
    assert.strictEqual(error, null);
    assert.strictEqual(reply, i % 2 ? 999 - (i - 1) / 2 : 'OK');
  });
  assert.ok((await client.pttl('user')) > 50_000);
  // Another forgets the script behind the client's back.
  await client.script('FLUSH');
  const second = await decide(10);
  assert.deepStrictEqual(second.filter((_, i) => i % 2), Array(10).fill([null, -1]));
  own.disconnect();
});

test('a defined command is sent by its digest, and with its text where that is not known', async () => {
  const own = withLimiter();
  await client.script('FLUSH');
  const before = await calls('eval', 'evalsha');
  for (let i = 0; i < 5; i++) assert.strictEqual(await own.limit('user', 10, 60_000), 9 - i);
  await client.script('FLUSH');
  assert.strictEqual(await own.limit('user', 10, 60_000), 4);
  const after = await calls('eval', 'evalsha');
  const [eval_, evalsha] = after.map((count, i) => count - before[i]);
  assert.strictEqual(eval_, 2);
  assert.ok(evalsha >= 4, `${evalsha}`);
  own.disconnect();
});

test('defined commands of many callers at once, by auto-pipelining', async () => {
  const auto = new Redis({ port, host: '127.0.0.1', enableAutoPipelining: true });
  auto.defineCommand('limit', { numberOfKeys: 1, lua: LIMITER });
  const left = await Promise.all(Array.from({ length: 2000 }, (_, i) => auto.limit(`user:${i % 20}`, 50, 60_000)));
  assert.strictEqual(left.filter((reply) => reply >= 0).length, 20 * 50);
  auto.disconnect();
});

test('a transaction with a defined command is one unit', async () => {
  const own = withLimiter();
  const replies = await own.multi().set('a', 1).limit('user', 5, 60_000).incr('a').exec();
  assert.deepStrictEqual(replies, [[null, 'OK'], [null, 4], [null, 2]]);
  own.disconnect();
});
