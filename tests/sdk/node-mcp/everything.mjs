// The official server of everything behind the gateway, and before it the official clients of both languages in both of
// their lines, each in the eras that it speaks.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { NODE, PACKAGES, TEST_KEY, TEST_URL, freePort, keyed, listening, register, run } from './place.mjs';

const { TEST_PYTHON, TEST_SCRIPTS, TEST_PYTHON_2 } = process.env;
const port = await freePort();
const server = `${PACKAGES}/@modelcontextprotocol/server-everything/dist/index.js`;
await listening(NODE, [server, 'streamableHttp'], port, { PORT: String(port) });
await register('everything', `http://127.0.0.1:${port}/mcp`);
// The same server by its two other transports; the settings of the gateway name the program.
const streams = await freePort();
await listening(NODE, [server, 'sse'], streams, { PORT: String(streams) });
await register('everything-sse', `http://127.0.0.1:${streams}/sse`, { transport: 'sse' });
await register('everything-stdio', 'stdio:everything', { transport: 'stdio' });
const SLUGS = ['everything', 'everything-sse', 'everything-stdio'];

for (const [slug, mode] of SLUGS.flatMap((slug) => [[slug, 'legacy'], [slug, 'auto']])) {
  const client = new Client(
    { name: 'typescript', version: '1' },
    { capabilities: { elicitation: {}, sampling: {} }, versionNegotiation: { mode } },
  );
  client.setRequestHandler('sampling/createMessage', () => ({
    model: 'm', role: 'assistant', content: { type: 'text', text: 'sampled' },
  }));
  client.setRequestHandler('elicitation/create', () => ({ action: 'decline' }));
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${TEST_URL}/${slug}/mcp`), {
      requestInit: { headers: { 'x-gateway-api-key': TEST_KEY } },
    }),
  );
  const { tools } = await client.listTools();
  assert.ok(tools.length >= 5, tools.length);
  const echoed = await client.callTool({ name: 'echo', arguments: { message: mode } });
  assert.equal(echoed.content[0].text, `Echo: ${mode}`);
  const told = [];
  const long = await client.callTool(
    { name: 'trigger-long-running-operation', arguments: { duration: 0.4, steps: 2 } },
    { onprogress: (step) => told.push(step.progress) },
  );
  assert.match(long.content[0].text, /completed/i);
  assert.deepEqual(told, [1, 2]);
  const sampling = tools.find(({ name }) => name === 'trigger-sampling-request');
  // A server with sessions can ask a client of its own era alone.
  assert.equal(Boolean(sampling), mode === 'legacy', tools.map(({ name }) => name).join());
  if (sampling) {
    const sampled = await client.callTool({ name: sampling.name, arguments: { prompt: 'p', maxTokens: 5 } });
    assert.match(JSON.stringify(sampled.content), /sampled/);
  }
  const { resources } = await client.listResources();
  const read = await client.readResource({ uri: resources[0].uri });
  assert.ok(read.contents[0].text.length > 0);
  const { prompts } = await client.listPrompts();
  assert.ok(prompts.length > 0);
  await client.getPrompt({ name: 'simple-prompt' });
  await client.close();
  console.log(`ok typescript ${slug} ${mode}`);
}

const way = await keyed();
for (const [slug, line, path] of SLUGS.flatMap((slug) => [[slug, '1', ''], [slug, '2', TEST_PYTHON_2]])) {
  const script = join(TEST_SCRIPTS, 'mcp_everything.py');
  console.log(await run(TEST_PYTHON, ['-B', script, line, `${way}/${slug}/mcp`], { env: { PYTHONPATH: path } }));
}
process.exit(0);
