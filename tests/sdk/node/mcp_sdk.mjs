// The official SDK of the Model Context Protocol on both sides of the gateway: its servers behind it, alone and two as
// one, its client before it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const { TEST_URL, TEST_KEY, TEST_ADMIN_URL, TEST_ADMIN_KEY } = process.env;

/** What each server offers. */
function offer(name) {
  const server = new McpServer({ name, version: '1.0.0' }, { capabilities: { logging: {} } });
  const text = (said) => ({ content: [{ type: 'text', text: said }] });
  server.registerTool('add', { inputSchema: { a: z.number(), b: z.number() } }, ({ a, b }) => text(`${name} ${a + b}`));
  server.registerTool('hidden', {}, () => text('seen'));
  server.registerTool('broken', {}, () => {
    throw new Error('on purpose');
  });
  server.registerTool('slow', {}, async (extra) => {
    const { progressToken } = extra._meta;
    await extra.sendNotification({
      method: 'notifications/progress',
      params: { progressToken, progress: 1, total: 2 },
    });
    await extra.sendNotification({
      method: 'notifications/message',
      params: { level: 'info', data: 'half of it' },
    });
    return { content: [{ type: 'resource_link', uri: 'note://one', name: 'one' }] };
  });
  server.registerTool('greet', {}, async () => {
    const asked = await server.server.elicitInput({
      message: 'Who is there?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
    });
    return text(`hello ${asked.content.name}`);
  });
  server.registerPrompt('poem', { argsSchema: { about: z.string() } }, ({ about }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Write of ${about}` } }],
  }));
  server.registerResource('one', 'note://one', {}, (uri) => ({ contents: [{ uri: uri.href, text: 'remember' }] }));
  return server;
}

const running = [];

/** A server that keeps sessions, on a port of its own. */
async function upstream(name) {
  const sessions = new Map();
  const server = createServer(async (request, response) => {
    const id = request.headers['mcp-session-id'];
    let transport = sessions.get(id);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (issued) => sessions.set(issued, transport),
      });
      await offer(name).connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  running.push(server);
  return `http://127.0.0.1:${server.address().port}/mcp`;
}

async function admin(method, path, body) {
  const headers = { 'x-gateway-api-key': TEST_ADMIN_KEY, 'content-type': 'application/json' };
  const answer = await fetch(`${TEST_ADMIN_URL}/v1${path}`, { method, headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

async function register(slug) {
  const url = await upstream(slug);
  const integration = { name: slug, slug: `${slug}-int`, url, auth_type: 'none', transport: 'http' };
  await admin('POST', '/mcp-integrations', integration);
  await admin('POST', '/mcp-servers', { name: slug, slug, mcp_integration_id: `${slug}-int` });
  const off = { capabilities: [{ name: 'hidden', type: 'tool', enabled: false }] };
  await admin('PUT', `/mcp-servers/${slug}/capabilities`, off);
}

async function connect(slug, older) {
  const client = new Client({ name: 'test', version: '0' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, (asked) => {
    assert.equal(asked.params.message, 'Who is there?');
    return { action: 'accept', content: { name: 'you' } };
  });
  const notes = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, (note) => notes.push(note.params.data));
  const requestInit = { headers: { 'x-gateway-api-key': TEST_KEY } };
  // That of 2024-11-05 reads its stream by a fetch of its own.
  const authorized = (url, init) => fetch(url, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), ...requestInit.headers } });
  const transport = older
    ? new SSEClientTransport(new URL(`${TEST_URL}/${slug}/sse`), { requestInit, eventSourceInit: { fetch: authorized } })
    : new StreamableHTTPClientTransport(new URL(`${TEST_URL}/${slug}/mcp`), { requestInit });
  await client.connect(transport);
  return { client, transport, notes, older };
}

const own = ['add', 'broken', 'slow', 'greet'];
/** How the whole calls what a member offers. */
const named = (prefix, name) => (prefix ? `${prefix}__${name}` : name);
const placed = (prefix, uri) => (prefix ? `${prefix}+${uri}` : uri);

async function use({ client, notes, older }, server, prefix) {
  const call = (name, args, options) => client.callTool({ name: named(prefix, name), arguments: args }, undefined, options);
  assert.equal((await call('add', { a: 2, b: 3 })).content[0].text, `${server} 5`);
  const broken = await call('broken', {});
  assert.ok(broken.isError && broken.content[0].text.includes('on purpose'));
  await assert.rejects(call('hidden', {}), (error) => error.code === -32602);
  const steps = [];
  const slow = await call('slow', {}, { onprogress: (step) => steps.push([step.progress, step.total]) });
  // Where a step and the answer come in one piece, the older transport forgets whom to tell before it tells.
  if (!older || steps.length) assert.deepEqual(steps, [[1, 2]]);
  assert.equal(slow.content[0].uri, placed(prefix, 'note://one'));
  assert.ok(notes.includes('half of it'));
  assert.equal((await call('greet', {})).content[0].text, 'hello you');
  const prompt = await client.getPrompt({ name: named(prefix, 'poem'), arguments: { about: 'rain' } });
  assert.equal(prompt.messages[0].content.text, 'Write of rain');
  const read = await client.readResource({ uri: slow.content[0].uri });
  assert.deepEqual([read.contents[0].uri, read.contents[0].text], [slow.content[0].uri, 'remember']);
}

async function conversation(slug, members, older = false) {
  const held = await connect(slug, older);
  const { client, transport } = held;
  assert.equal(client.getServerVersion().name, slug);
  assert.ok(older || transport.sessionId);
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  assert.deepEqual(tools, members.flatMap(([, prefix]) => own.map((name) => named(prefix, name))));
  const resources = (await client.listResources()).resources.map((resource) => resource.uri);
  assert.deepEqual(resources, members.map(([, prefix]) => placed(prefix, 'note://one')));
  for (const [server, prefix] of members) await use(held, server, prefix);
  await client.ping();
  if (!older) await transport.terminateSession();
  await client.close();
  console.log('ok', slug, older ? 'over SSE' : '');
}

/** What somebody does on the pages: where they are sent in the end. */
async function browser(url) {
  const field = (text, name) => text.match(new RegExp(`name="${name}" value="([^"]*)"`))[1];
  const page = await fetch(url);
  assert.equal(page.status, 200);
  // Such cookies are for TLS alone, but for browsers on the same machine.
  const headers = { cookie: page.headers.get('set-cookie').split(';')[0], 'sec-fetch-site': 'same-origin' };
  const press = (fields) =>
    fetch(`${TEST_URL}/oauth/authorize`, { method: 'POST', headers, body: new URLSearchParams(fields), redirect: 'manual' });
  const first = await page.text();
  const signed = await press({ ticket: field(first, 'ticket'), step: 'key', key: process.env.TEST_USER_KEY });
  const text = await signed.text();
  const left = await press({ ticket: field(text, 'ticket'), step: 'allow', workspace: field(text, 'workspace') });
  assert.equal(left.status, 303);
  const told = new URL(left.headers.get('location')).searchParams;
  assert.equal(told.get('iss'), TEST_URL);
  return told.get('code');
}

/** The client is given an address and nothing else. */
async function signsIn(slug) {
  const kept = {};
  const redirectUrl = 'http://127.0.0.1:33418/callback';
  const authProvider = {
    redirectUrl,
    clientMetadata: { client_name: 'Node', redirect_uris: [redirectUrl], grant_types: ['authorization_code', 'refresh_token'] },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => (kept.tokens = tokens),
    redirectToAuthorization: (url) => (kept.url = url),
    saveCodeVerifier: (verifier) => (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
  };
  const url = new URL(`${TEST_URL}/${slug}/mcp`);
  const first = new StreamableHTTPClientTransport(url, { authProvider });
  await assert.rejects(new Client({ name: 'test', version: '0' }).connect(first), /Unauthorized/);
  await first.finishAuth(await browser(kept.url));
  const client = new Client({ name: 'test', version: '0' });
  await client.connect(new StreamableHTTPClientTransport(url, { authProvider }));
  const call = async (a, b) => (await client.callTool({ name: 'add', arguments: { a, b } })).content[0].text;
  assert.equal(await call(2, 3), `${slug} 5`);
  const refreshed = kept.tokens.refresh_token;
  kept.tokens = { ...kept.tokens, access_token: 'over' };
  assert.equal(await call(3, 4), `${slug} 7`);
  assert.ok(kept.tokens.refresh_token !== refreshed && kept.tokens.access_token !== 'over');
  await client.close();
  console.log('ok', slug, 'signs in');
}

await register('left');
await register('right');
const members = [{ mcp_server_id: 'left' }, { mcp_server_id: 'right', prefix: 'r' }];
await admin('POST', '/mcp-servers', { name: 'both', slug: 'both', members });
await conversation('left', [['left', '']]);
await signsIn('left');
await conversation('both', [['left', 'left'], ['right', 'r']]);
await conversation('left', [['left', '']], true);
await conversation('both', [['left', 'left'], ['right', 'r']], true);
for (const server of running) {
  server.closeAllConnections();
  server.close();
}
