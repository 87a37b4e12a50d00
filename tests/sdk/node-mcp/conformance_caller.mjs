// What the official suite runs as "the client": it puts the server that it is given behind the gateway, and does through
// the gateway what the scenario waits for. So what the suite sees of a client is what the gateway sends.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { TEST_KEY, TEST_URL, register } from './place.mjs';

const given = process.argv[2].replace('//localhost', '//127.0.0.1');
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const version = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION;
const { toolCalls } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const slug = `${scenario}-${version}`.replaceAll(/[^a-z0-9-]/g, '-').slice(0, 40);

await register(slug, given);
const modern = version >= '2026-07-28';
const client = new Client(
  { name: 'caller', version: '1' },
  {
    capabilities: { elicitation: { form: { applyDefaults: true } } },
    versionNegotiation: { mode: modern ? { pin: version } : 'legacy' },
  },
);
client.setRequestHandler('elicitation/create', ({ params }) => {
  const answers = { confirmed: true };
  const content = Object.entries(params.requestedSchema.properties)
    .map(([name, schema]) => [name, schema.default ?? answers[name]])
    .filter(([, value]) => value !== undefined);
  return { action: 'accept', content: Object.fromEntries(content) };
});
await client.connect(
  new StreamableHTTPClientTransport(new URL(`${TEST_URL}/${slug}/mcp`), {
    requestInit: { headers: { 'x-gateway-api-key': TEST_KEY } },
  }),
);
const offers = client.getServerCapabilities();
const { tools } = await client.listTools();
const calls = toolCalls ?? tools.map(({ name }) => ({ name, arguments: name.startsWith('add') ? { a: 2, b: 3 } : {} }));
if (scenario === 'json-schema-2020-12-preservation') {
  const { inputSchema } = tools.find(({ name }) => name === 'json_schema_2020_12_tool');
  await client.callTool({ name: 'json_schema_echo', arguments: { schema: inputSchema } });
} else if (scenario !== 'json-schema-ref-no-deref') {
  for (const call of calls) await client.callTool(call);
}
if (offers?.resources) {
  for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
}
if (offers?.prompts) {
  for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
}
await client.close();
