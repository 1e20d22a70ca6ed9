'use strict';
// BullMQ: a queue library whose every step is a script, in use. Modules are found through NODE_PATH.

const assert = require('node:assert');
const { after, before, test } = require('node:test');
const { Queue, QueueEvents, Worker } = require('bullmq');
const Redis = require('ioredis');
const { start } = require('./server');

const JOBS = 10_000;
const BATCH = 500;
const WORKERS = 2;
// What a queue is for: jobs for later, jobs that fail and are tried again, jobs that go first, jobs that are hopeless.
const KINDS = ['plain', 'plain', 'plain', 'plain', 'plain', 'delayed', 'failing', 'urgent', 'plain', 'plain'];
const HOPELESS = 7;

let server;
let connection;

before(async () => {
  server = await start();
  connection = { port: server.port, host: '127.0.0.1', maxRetriesPerRequest: null };
});

after(() => server.stop());

function job(number) {
  const kind = number < HOPELESS ? 'hopeless' : KINDS[number % KINDS.length];
  const opts = {
    plain: {},
    delayed: { delay: 1 + (number % 1000) },
    failing: { attempts: 3, backoff: { type: 'fixed', delay: 5 } },
    urgent: { priority: 1 + (number % 3) },
    hopeless: { attempts: 2, backoff: { type: 'exponential', delay: 1 } },
  }[kind];
  return { name: kind, data: { number, due: Date.now() + (opts.delay || 0) }, opts };
}

test('every one of 10,000 jobs is done once', { timeout: 240_000 }, async () => {
  const queue = new Queue('work', { connection });
  const done = new Map();
  const tries = new Map();
  const early = [];
  const failed = [];
  const errors = [];
  let ended;
  const all = new Promise((resolve) => (ended = resolve));
  const count = () => {
    if (done.size + failed.length === JOBS) ended();
  };
  const work = async ({ name, data, attemptsMade }) => {
    tries.set(data.number, (tries.get(data.number) || 0) + 1);
    if (name === 'delayed' && Date.now() < data.due) early.push(data.number);
    if (name === 'hopeless' || (name === 'failing' && attemptsMade < data.number % 3)) throw new Error('not now');
    return data.number * 2;
  };
  const workers = Array.from({ length: WORKERS }, () => new Worker('work', work, { connection, concurrency: 50 }));
  for (const worker of workers) {
    worker.on('completed', ({ data }, result) => {
      assert.strictEqual(result, data.number * 2);
      done.set(data.number, (done.get(data.number) || 0) + 1);
      count();
    });
    worker.on('failed', (failing) => {
      if (failing.attemptsMade === failing.opts.attempts) failed.push(failing.data.number);
      count();
    });
    worker.on('error', (error) => errors.push(error));
  }
  for (let from = 0; from < JOBS; from += BATCH) {
    await queue.addBulk(Array.from({ length: BATCH }, (_, i) => job(from + i)));
  }
  await all;
  assert.deepStrictEqual(errors, []);
  assert.deepStrictEqual(early, []);
  assert.ok([...done.values()].every((times) => times === 1));
  assert.deepStrictEqual(failed.sort((a, b) => a - b), Array.from({ length: HOPELESS }, (_, i) => i));
  const wanted = (number) => {
    const { name } = job(number);
    return name === 'hopeless' ? 2 : name === 'failing' ? 1 + (number % 3) : 1;
  };
  for (let number = 0; number < JOBS; number++) assert.strictEqual(tries.get(number), wanted(number), `job ${number}`);
  const { completed, failed: hopeless, ...left } = await queue.getJobCounts();
  assert.deepStrictEqual([completed, hopeless], [JOBS - HOPELESS, HOPELESS]);
  assert.ok(Object.values(left).every((jobs) => jobs === 0), JSON.stringify(left));
  await Promise.all(workers.map((worker) => worker.close()));
  await queue.obliterate({ force: true });
  await queue.close();
});

test('events tell what becomes of jobs, and a queue pauses', { timeout: 60_000 }, async () => {
  const queue = new Queue('told', { connection });
  const events = new QueueEvents('told', { connection });
  await events.waitUntilReady();
  await queue.pause();
  const worker = new Worker('told', async ({ data }) => data.number + 1, { connection });
  await worker.waitUntilReady();
  const jobs = await queue.addBulk(Array.from({ length: 100 }, (_, number) => ({ name: 'add', data: { number } })));
  assert.strictEqual((await queue.getJobCounts('completed')).completed, 0);
  assert.strictEqual(await queue.isPaused(), true);
  await queue.resume();
  const results = await Promise.all(jobs.map((added) => added.waitUntilFinished(events)));
  assert.deepStrictEqual(results, Array.from({ length: 100 }, (_, number) => number + 1));
  await Promise.all([worker.close(), events.close()]);
  await queue.close();
});

test('every script of the library is known by its digest afterwards', async () => {
  const client = new Redis(connection);
  const stats = await client.info('commandstats');
  const calls = (name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] || 0);
  assert.ok(calls('evalsha') > JOBS, stats);
  assert.ok(calls('eval') < 1000, stats);
  client.disconnect();
});
