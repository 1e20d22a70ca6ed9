'use strict';
// ioredis: its helpers for the data types, one by one and through pipelines.

const assert = require('node:assert');
const { after, before, beforeEach, test } = require('node:test');
const Redis = require('ioredis');
const { start } = require('./server.js');

let server;
let client;

before(async () => {
  server = await start();
  client = new Redis(server.port, '127.0.0.1');
});

beforeEach(() => client.flushall());

after(async () => {
  client.disconnect();
  await server.stop();
});

test('lists', async () => {
  assert.strictEqual(await client.rpush('l', 1, 2, 3), 3);
  assert.deepStrictEqual(await client.lrange('l', 0, -1), ['1', '2', '3']);
  assert.strictEqual(await client.lmove('l', 'm', 'LEFT', 'RIGHT'), '1');
  assert.deepStrictEqual(await client.blpop('none', 'l', 1), ['l', '2']);
});

test('a list wakes who waits for it', async () => {
  const waiting = client.duplicate();
  const popped = waiting.blpop('queue', 10);
  while (!/blocked_clients:1/.test(await client.info('clients')));
  await client.lpush('queue', 'job');
  assert.deepStrictEqual(await popped, ['queue', 'job']);
  waiting.disconnect();
});

test('hashes', async () => {
  assert.strictEqual(await client.hset('h', { a: 1, b: 2 }), 2);
  assert.deepStrictEqual(await client.hgetall('h'), { a: '1', b: '2' });
  assert.strictEqual(await client.hincrby('h', 'a', 4), 5);
});

test('sets', async () => {
  await client.sadd('s', 'a', 'b');
  await client.sadd('t', 'b', 'c');
  assert.deepStrictEqual(await client.sinter('s', 't'), ['b']);
  assert.deepStrictEqual((await client.sunion('s', 't')).sort(), ['a', 'b', 'c']);
});

test('sorted sets', async () => {
  await client.zadd('z', 1, 'a', 2.5, 'b');
  assert.deepStrictEqual(await client.zrange('z', 0, -1, 'WITHSCORES'), ['a', '1', 'b', '2.5']);
  assert.strictEqual(await client.zrank('z', 'b'), 1);
  assert.deepStrictEqual(await client.zpopmax('z'), ['b', '2.5']);
});

test('streams', async () => {
  const id = await client.xadd('x', '*', 'f', 'v');
  assert.deepStrictEqual(await client.xrange('x', '-', '+'), [[id, ['f', 'v']]]);
  await client.xgroup('CREATE', 'x', 'g', '0');
  assert.deepStrictEqual(await client.xreadgroup('GROUP', 'g', 'me', 'STREAMS', 'x', '>'), [['x', [[id, ['f', 'v']]]]]);
});

test('bits', async () => {
  await client.setbit('b', 9, 1);
  assert.strictEqual(await client.bitcount('b'), 1);
  assert.deepStrictEqual(await client.bitfield('b', 'GET', 'u4', 8), [4]);
});

test('all types through one pipeline', async () => {
  const pipeline = client.pipeline();
  for (let n = 0; n < 1000; n += 1) {
    pipeline.rpush('l', n).hset('h', `f${n}`, n).sadd('s', n).zadd('z', n, `m${n}`).xadd('x', '*', 'n', n);
  }
  const replies = await pipeline.exec();
  assert.ok(replies.every(([error]) => error === null));
  assert.strictEqual(replies.length, 5000);
  assert.strictEqual(await client.zcard('z'), 1000);
});
