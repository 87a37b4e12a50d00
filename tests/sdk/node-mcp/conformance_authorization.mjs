// The official conformance suite asks the gateway's authorization server; what somebody does on its pages is done here.

import assert from 'node:assert/strict';
import { NODE, SUITE, TEST_URL, TEST_USER_KEY, freePort, listening, register, run } from './place.mjs';

const everything = await freePort();
const server = `${process.env.TEST_PACKAGES}/@modelcontextprotocol/server-everything/dist/index.js`;
await listening(NODE, [server, 'streamableHttp'], everything, { PORT: String(everything) });
await register('signed-in', `http://127.0.0.1:${everything}/mcp`);

const port = await freePort();
const metadata = { client_name: 'Conformance', redirect_uris: [`http://127.0.0.1:${port}/callback`],
  grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none' };
const registered = await fetch(`${TEST_URL}/oauth/register`, {
  method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(metadata),
});
assert.equal(registered.status, 201);
const { client_id } = await registered.json();

/** From the page to where it leads. */
async function consent(url) {
  const field = (page, name) => page.match(new RegExp(`name="${name}" value="([^"]*)"`))[1];
  const opened = await fetch(url);
  let page = await opened.text();
  const cookie = opened.headers.get('set-cookie').split(';')[0];
  const press = (body) => fetch(`${TEST_URL}/oauth/authorize`, {
    method: 'POST', redirect: 'manual', body: new URLSearchParams(body), headers: { cookie, 'sec-fetch-site': 'same-origin' },
  });
  page = await (await press({ ticket: field(page, 'ticket'), step: 'key', key: TEST_USER_KEY })).text();
  const left = await press({ ticket: field(page, 'ticket'), step: 'allow', workspace: field(page, 'workspace') });
  assert.equal(left.status, 303);
  await fetch(left.headers.get('location'));
}

let asked;
const told = await run(
  NODE,
  [SUITE, 'authorization', '--url', TEST_URL, '--client-id', client_id, '--port', String(port),
    '--resource', `${TEST_URL}/signed-in/mcp`],
  {
    mayFail: true,
    heard: (out) => {
      const url = out.match(/^(http\S+\/oauth\/authorize\?\S+)\n/m)?.[1];
      if (url && !asked) asked = consent(url);
    },
  },
);
await asked;
assert.match(told, /✓ authorization-server-metadata-endpoint: [1-9]\d* passed, 0 failed/, told);
assert.match(told, /✓ authorization-code-grant: [1-9]\d* passed, 0 failed/, told);
console.log('ok authorization');
process.exit(0);
