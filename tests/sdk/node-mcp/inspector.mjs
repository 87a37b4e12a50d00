// The official inspector, as a program, before the gateway; the official server of everything behind it.

import assert from 'node:assert/strict';
import { NODE, PACKAGES, TEST_KEY, TEST_URL, freePort, listening, register, run } from './place.mjs';

const INSPECTOR = `${PACKAGES}/@modelcontextprotocol/inspector/clients/launcher/build/index.js`;
const port = await freePort();
const server = `${PACKAGES}/@modelcontextprotocol/server-everything/dist/index.js`;
await listening(NODE, [server, 'streamableHttp'], port, { PORT: String(port) });
await register('everything', `http://127.0.0.1:${port}/mcp`);

async function inspect(method, ...more) {
  const out = await run(NODE, [INSPECTOR, '--cli', `${TEST_URL}/everything/mcp`, '--transport', 'http',
    '--header', `x-gateway-api-key: ${TEST_KEY}`, '--method', method, ...more]);
  return JSON.parse(out);
}

const { tools } = await inspect('tools/list');
assert.ok(tools.some(({ name }) => name === 'echo'), JSON.stringify(tools));
const echoed = await inspect('tools/call', '--tool-name', 'echo', '--tool-arg', 'message=hi');
assert.equal(echoed.content[0].text, 'Echo: hi');
const { resources } = await inspect('resources/list');
const read = await inspect('resources/read', '--uri', resources[0].uri);
assert.ok(read.contents[0].text.length > 0);
const { prompts } = await inspect('prompts/list');
assert.ok(prompts.some(({ name }) => name === 'simple-prompt'));
const prompt = await inspect('prompts/get', '--prompt-name', 'simple-prompt');
assert.equal(prompt.messages[0].role, 'user');
console.log('ok inspector');
process.exit(0);
