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

test('HyperLogLogs', async () => {
  const elements = Array.from({ length: 10_000 }, (_, n) => `e${n}`);
  assert.strictEqual(await client.pfadd('p', ...elements), 1);
  const count = await client.pfcount('p');
  assert.ok(Math.abs(count - 10_000) < 250, `${count}`);
  await client.pfadd('q', 'e1', 'other');
  assert.strictEqual(await client.pfmerge('r', 'p', 'q'), 'OK');
  assert.ok(await client.pfcount('r') >= count);
});

test('geo indexes', async () => {
  assert.strictEqual(await client.geoadd('g', 13.361389, 38.115556, 'Palermo', 15.087269, 37.502669, 'Catania'), 2);
  assert.strictEqual(await client.geodist('g', 'Palermo', 'Catania', 'KM'), '166.2742');
  assert.deepStrictEqual(await client.geohash('g', 'Palermo'), ['sqc8b49rny0']);
  const found = await client.geosearch('g', 'FROMLONLAT', 15, 37, 'BYRADIUS', 200, 'KM', 'ASC', 'WITHDIST');
  assert.deepStrictEqual(found, [['Catania', '56.4413'], ['Palermo', '190.4424']]);
});

test('all types through one pipeline', async () => {
  const pipeline = client.pipeline();
  for (let n = 0; n < 1000; n += 1) {
    pipeline.rpush('l', n).hset('h', `f${n}`, n).sadd('s', n).zadd('z', n, `m${n}`).xadd('x', '*', 'n', n)
      .pfadd('p', n).geoadd('g', n / 10, n / 20, `m${n}`).setbit('b', n, 1);
  }
  const replies = await pipeline.exec();
  assert.ok(replies.every(([error]) => error === null));
  assert.strictEqual(replies.length, 8000);
  assert.strictEqual(await client.zcard('z'), 1000);
});
