'use strict';
// express-session with connect-redis: sessions.js PORT. Modules are found through NODE_PATH.

const { RedisStore } = require('connect-redis');
const express = require('express');
const session = require('express-session');
const { createClient } = require('redis');

async function main() {
  const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}` });
  await client.connect();
  const store = new RedisStore({ client, prefix: 'web:', ttl: 600 });
  const app = express();
  app.use(session({ store, secret: 'none', resave: false, saveUninitialized: false, rolling: true }));
  app.get('/login/:name', (req, res) => {
    req.session.regenerate(() => {
      req.session.name = req.params.name;
      req.session.views = 0;
      res.send('in');
    });
  });
  app.get('/view', (req, res) => {
    if (!req.session.name) return res.status(401).send('who?');
    req.session.views++;
    return res.send(`${req.session.name} ${req.session.views}`);
  });
  app.get('/logout', (req, res) => req.session.destroy(() => res.send('out')));
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));

  const jars = {};
  const get = async (who, path) => {
    const headers = jars[who] ? { cookie: jars[who] } : {};
    const reply = await fetch(`http://127.0.0.1:${server.address().port}${path}`, { headers });
    const cookie = reply.headers.get('set-cookie');
    if (cookie) jars[who] = cookie.split(';')[0];
    return `${reply.status} ${await reply.text()}`;
  };
  console.log('a stranger', await get('eve', '/view'));
  console.log('logged in', await get('ada', '/login/ada'), await get('bob', '/login/bob'));
  for (let n = 0; n < 20; n++) await Promise.all([get('ada', '/view'), get('bob', '/view')]);
  console.log('views', await get('ada', '/view'), await get('bob', '/view'));
  const keys = await client.keys('web:*');
  const ttls = await Promise.all(keys.map((key) => client.ttl(key)));
  console.log('kept', keys.length, ttls.every((ttl) => ttl > 590 && ttl <= 600), await promised(store, 'length'));
  const old = jars.ada;
  console.log('logged out', await get('ada', '/logout'), await get('ada', '/view'));
  jars.ada = old;
  console.log('the old cookie', await get('ada', '/view'), await get('bob', '/view'));
  console.log('all', (await promised(store, 'all')).length);
  await promised(store, 'clear');
  console.log('cleared', await get('bob', '/view'), await client.dbSize());
  server.closeAllConnections();
  server.close();
  await client.close();
}

function promised(store, method) {
  return new Promise((resolve, reject) => {
    store[method]((error, result) => (error ? reject(error) : resolve(result)));
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
