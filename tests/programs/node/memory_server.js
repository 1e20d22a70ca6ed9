'use strict';
// redis-memory-server: starts servers by itself and ends them: memory_server.js PROGRAM. Modules are found through NODE_PATH.

const { RedisMemoryServer } = require('redis-memory-server');
const { createClient } = require('redis');

const binary = { systemBinary: process.argv[2] };

async function connect(server, password) {
  return connectTo(await server.getHost(), await server.getPort(), password);
}

async function connectTo(host, port, password) {
  const client = createClient({ socket: { host, port, reconnectStrategy: false }, password });
  client.on('error', () => {});
  await client.connect();
  await client.ping();
  return client;
}

const failure = (promise) => promise.then(() => 'no error', (error) => error.message ?? String(error));

async function main() {
  const open = new RedisMemoryServer({ binary });
  const guarded = await RedisMemoryServer.create({
    binary,
    instance: { args: ['--requirepass', 'secret', '--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'] },
    autoStart: true,
  });
  const first = await connect(open);
  const second = await connect(guarded, 'secret');
  await first.set('a', '1');
  console.log('two servers', await first.get('a'), await second.get('a'));
  const settings = await second.configGet(['maxmemory', 'maxmemory-policy', 'appendonly', 'save']);
  console.log('settings', Object.entries(settings).sort().map((pair) => pair.join('=')).join(' '));
  console.log('without the password', await failure(connect(guarded)));
  const told = (await first.info('server')).match(/process_id:(\d+)/)[1];
  console.log('the process is known', Number(told) === open.getInstanceInfo().instance.getPid());

  const port = await open.getPort();
  const taken = await failure(RedisMemoryServer.create({ binary, instance: { args: ['--port', String(port)] }, autoStart: true }));
  console.log('a port that is taken', taken.replace(/\d+/, 'N'));
  const wrong = await failure(RedisMemoryServer.create({ binary, instance: { args: ['--nosuch', 'x'] }, autoStart: true }));
  console.log('a wrong option', wrong);

  console.log('ended', await open.stop(), await guarded.stop());
  console.log('after the end', (await failure(connectTo('127.0.0.1', port))).replace(String(port), 'PORT'));
  process.exit(0);
}

main();
