// What the official suite runs as "the client" where its server signs people in: the server stands behind the gateway, which
// calls it with accounts of people, and somebody connects theirs. So what the suite sees of sign-in is the gateway's.

import { TEST_URL, TEST_USER_KEY, register } from './place.mjs';

const given = process.argv[2];
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const version = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION;
const slug = `${scenario}-${version}`.replaceAll(/[^a-z0-9-]/g, '-').slice(-40).replace(/^-+/, '');

let number = 0;
async function ask(method, params) {
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
  const headers = {
    'x-gateway-api-key': TEST_USER_KEY, 'content-type': 'application/json', accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...(params.name ? { 'mcp-name': params.name } : {}),
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: (number += 1), method, params: { ...params, _meta } });
  const answer = await fetch(`${TEST_URL}/${slug}/mcp`, { method: 'POST', headers, body });
  const text = await answer.text();
  return JSON.parse(text.startsWith('{') ? text : text.split('\n').filter((line) => line.startsWith('data: {')).at(-1).slice(6));
}

/** Somebody else for each run: sign-ins of one address are paced. */
const address = `198.51.100.${process.pid % 254}`;

/** From a link of the gateway's to where the server's sign-in leads back. */
async function connect(link) {
  const jar = new Map();
  const visit = async (url, options = {}) => {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const own = url.startsWith(TEST_URL);
    const headers = { ...(own && cookie ? { cookie } : {}), 'sec-fetch-site': 'same-origin', 'x-forwarded-for': address };
    const answer = await fetch(url, { redirect: 'manual', ...options, headers });
    for (const cookie of own ? answer.headers.getSetCookie() : []) {
      const [, name, value] = cookie.match(/^([^=]+)=([^;]*)/);
      jar.set(name, value);
    }
    return answer;
  };
  const ticket = (page) => page.match(/name="ticket" value="([^"]*)"/)?.[1];
  const press = (page, more) => visit(link, { method: 'POST', body: new URLSearchParams({ ticket: ticket(page), ...more }) });
  let page = await (await visit(link)).text();
  page = await (await press(page, { step: 'key', key: TEST_USER_KEY })).text();
  if (!ticket(page)) throw new Error(page);
  let left = await press(page, { step: 'connect' });
  while (left.status >= 300 && left.status < 400) left = await visit(new URL(left.headers.get('location'), TEST_URL).href);
  const told = await left.text();
  if (!told.includes('Connected')) throw new Error(told);
}

/** A client that the suite made beforehand, or one whose document is at an address of the suite's. */
async function knownClient() {
  const { client_id, client_secret, issuer } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
  if (client_id) return { client_id, client_secret, issuer };
  if (!scenario.endsWith('/basic-cimd')) return undefined;
  const { origin, pathname } = new URL(given);
  const document = await (await fetch(`${origin}/.well-known/oauth-protected-resource${pathname}`)).json();
  return { issuer: document.authorization_servers[0], client_id: 'https://conformance-test.local/client-metadata.json' };
}

const known_client = await knownClient();
const more = { auth_type: 'oauth_auto', ...(known_client && { configurations: { known_client } }) };
await register(slug, given, more);
const call = () => ask('tools/call', { name: 'test-tool', arguments: {} });
let told = await call();
// A scope may be missing more than once: the gateway says when it has been asked for often enough.
for (let tries = 0; told.error?.data?.authorization_url && tries < 6; tries += 1) {
  await connect(told.error.data.authorization_url);
  await ask('tools/list', {});
  told = await call();
}
if (told.error) throw new Error(JSON.stringify(told));
