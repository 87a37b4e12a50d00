// Which methods of the SDK of another gateway a script called: found by looking at the client itself, so that no method that a
// later version brings is passed over in silence.

import assert from 'node:assert/strict';
import { Portkey } from 'portkey-ai';

export const ADMIN = [
  'admin', 'analytics', 'apiKeys', 'configs', 'feedback', 'guardrails', 'integrations', 'logs', 'mcpIntegrations', 'mcpServers',
  'providers', 'virtualKeys',
];
export const PROMPTS = ['prompts', 'labels', 'collections'];
// Calls of models and what belongs to them, which other scripts make as OpenAI's own SDK.
const DATA_PLANE = [
  'audio', 'batches', 'beta', 'chat', 'completions', 'containers', 'conversations', 'embeddings', 'evals', 'files', 'fineTuning',
  'generations', 'images', 'models', 'moderations', 'realtime', 'responses', 'uploads', 'vectorStores', 'videos', 'webhooks',
];
// Not there, each for its reason.
export const ABSENT = [
  // By these the vendor's data plane tells its control plane what it learnt of a server. Here one process is both, and asks
  // the server itself when it is saved or tested.
  'mcpIntegrations.sync', 'mcpServers.capabilities.sync', 'mcpServers.metadata.sync',
  // By these it keeps what people signed in with there. Nobody is given a stored credential here.
  'mcpServers.getTokens', 'mcpServers.setTokens', 'mcpServers.deleteTokens', 'mcpServers.getClientInfo',
  // By this it asks before each call whether it may be made. Here the call itself is answered.
  'mcpServers.userAccess.check',
];
// What every resource has of the class above it, to make requests with.
const TOOLS = ['constructor', 'post', 'put', 'getMethod', 'deleteMethod'];

const isResource = (value) => Boolean(value) && typeof value === 'object' && typeof value.getMethod === 'function';

/** Each method of a resource and of what it holds, with the prototype that it is of. */
function* methods(resource, path) {
  for (let owner = Object.getPrototypeOf(resource); owner !== Object.prototype; owner = Object.getPrototypeOf(owner)) {
    for (const name of Object.getOwnPropertyNames(owner)) {
      if (!TOOLS.includes(name) && typeof owner[name] === 'function') yield [`${path}.${name}`, owner, name];
    }
  }
  for (const [name, value] of Object.entries(resource)) {
    if (name !== 'client' && isResource(value)) yield* methods(value, `${path}.${name}`);
  }
}

/** Begins to count with its making; `close` fails for what was not called. */
export function census(wanted) {
  const client = new Portkey({ apiKey: 'x', baseURL: 'http://127.0.0.1:9/v1' });
  const areas = Object.entries(client).filter(([name, value]) => isResource(value) || name === 'beta');
  const said = [...ADMIN, ...PROMPTS, ...DATA_PLANE];
  assert.deepEqual(areas.map(([name]) => name).filter((name) => !said.includes(name)), [], 'nobody says what these are');
  const known = new Set();
  const called = new Set();
  for (const [area, resource] of areas.filter(([name]) => wanted.includes(name))) {
    for (const [path, owner, name] of methods(resource, area)) {
      known.add(path);
      const method = owner[name];
      owner[name] = function noted(...args) {
        called.add(path);
        return method.apply(this, args);
      };
    }
  }
  return {
    close() {
      assert.ok(known.size >= wanted.length * 4, `${known.size} methods were found`);
      const missed = [...known].filter((path) => !called.has(path) && !ABSENT.includes(path));
      assert.deepEqual(missed, [], 'nobody called these');
      const gone = ABSENT.filter((path) => wanted.includes(path.split('.')[0]) && !known.has(path));
      assert.deepEqual(gone, [], 'the SDK has none of these');
    },
  };
}
