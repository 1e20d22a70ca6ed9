'use strict';
// An onrush-server of its own for a file of tests.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const fallback = path.join(__dirname, '..', '..', 'target', 'release', 'onrush-server');
const binary = process.env.ONRUSH_SERVER_BIN || fallback;

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const found = probe.address().port;
      probe.close(() => resolve(found));
    });
  });
}

function listens(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => resolve(true));
    socket.on('connect', () => socket.destroy());
    socket.on('error', () => resolve(false));
  });
}

exports.start = async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onrush-clients-'));
  const port = await freePort();
  const args = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder];
  if (!path.basename(binary).startsWith('redis-server')) args.push('--workers', '2');
  const child = spawn(binary, args.map(String), { stdio: 'ignore' });
  while (!(await listens(port))) await new Promise((resolve) => setTimeout(resolve, 5));
  return {
    port,
    stop: () => {
      child.kill('SIGKILL');
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
};
