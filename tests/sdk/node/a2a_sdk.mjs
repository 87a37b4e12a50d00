// The official SDK of Agent2Agent on both sides of the gateway: an agent of both versions behind it, its client before it,
// by each binding.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import {
  ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory,
} from '@a2a-js/sdk/client';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import express from 'express';

const { TEST_URL, TEST_KEY, TEST_ADMIN_URL, TEST_ADMIN_KEY } = process.env;
/** By binding and version. */
const WAYS = [['JSONRPC', '1.0'], ['HTTP+JSON', '1.0'], ['JSONRPC', '0.3']];

const said = (text) => ({ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' });
const status = (state) => ({ state, message: undefined, timestamp: new Date().toISOString() });

/** Says again what it hears; waits when it is told so, until it is cancelled. */
class Echo {
  cancelled = new Map();

  async execute({ taskId, contextId, userMessage }, bus) {
    const updated = (state) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state), metadata: undefined }));
    bus.publish(AgentEvent.task({
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], history: [userMessage], metadata: undefined,
    }));
    updated(TaskState.TASK_STATE_WORKING);
    const text = userMessage.parts[0].content.value;
    if (text === 'wait') {
      await new Promise((done) => this.cancelled.set(taskId, done));
      updated(TaskState.TASK_STATE_CANCELED);
    } else {
      const artifact = { artifactId: randomUUID(), name: 'answer', description: '', parts: [said(`heard ${text}`)], metadata: undefined, extensions: [] };
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: undefined }));
      updated(TaskState.TASK_STATE_COMPLETED);
    }
    bus.finished();
  }

  async cancelTask(taskId) {
    this.cancelled.get(taskId)?.();
  }
}

/** Its card names this way alone. */
async function agent(binding, version) {
  const app = express();
  const server = app.listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  server.unref();
  const root = `http://127.0.0.1:${server.address().port}`;
  const path = binding === 'JSONRPC' ? '/rpc' : '/rest';
  const card = {
    name: 'Echo', description: 'says it again', version: '1', provider: undefined,
    supportedInterfaces: [{ url: root + path, protocolBinding: binding, tenant: '', protocolVersion: version }],
    capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
    securitySchemes: {}, securityRequirements: [], defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
    skills: [{ id: 'echo', name: 'echo', description: 'says it again', tags: ['echo'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
    signatures: [],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Echo());
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: version === '0.3' } };
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler, ...options }));
  app.use('/rpc', jsonRpcHandler(options));
  app.use('/rest', restHandler(options));
  return root;
}

async function admin(path, body) {
  const headers = { 'x-gateway-api-key': TEST_ADMIN_KEY, 'content-type': 'application/json' };
  const answer = await fetch(`${TEST_ADMIN_URL}/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 200, await answer.clone().text());
}

const message = (text) => ({
  tenant: '', configuration: undefined, metadata: undefined,
  message: { messageId: randomUUID(), contextId: '', taskId: '', role: Role.ROLE_USER, parts: [said(text)], metadata: undefined, extensions: [], referenceTaskIds: [] },
});

async function collected(steps) {
  const all = [];
  for await (const { payload } of steps) all.push(payload);
  return all;
}

const fetchImpl = (url, options = {}) => {
  const headers = new Headers(options.headers);
  headers.set('x-gateway-api-key', TEST_KEY);
  return fetch(url, { ...options, headers });
};

async function conversation(slug, version) {
  const legacyCompat = { enabled: version === '0.3' };
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl, legacyCompat }), new RestTransportFactory({ fetchImpl, legacyCompat })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
  }));
  const client = await factory.createFromUrl(`${TEST_URL}/v1/agent/${slug}/`);
  const sent = await client.sendMessage(message('hello'));
  assert.equal(sent.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(sent.artifacts[0].parts[0].content.value, 'heard hello');
  const found = await client.getTask({ tenant: '', id: sent.id });
  assert.deepEqual([found.id, found.status.state], [sent.id, TaskState.TASK_STATE_COMPLETED]);

  const steps = await collected(client.sendMessageStream(message('streamed')));
  assert.equal(steps.find(({ $case }) => $case === 'artifactUpdate').value.artifact.parts[0].content.value, 'heard streamed');
  assert.equal(steps.at(-1).value.status.state, TaskState.TASK_STATE_COMPLETED);

  const waiting = client.sendMessageStream(message('wait'));
  const { value } = await waiting.next();
  const task = value.payload.value.id;
  await client.cancelTask({ tenant: '', id: task, metadata: undefined });
  const rest = await collected(waiting);
  assert.equal(rest.at(-1).value.status.state, TaskState.TASK_STATE_CANCELED);
  await assert.rejects(client.getTask({ tenant: '', id: randomUUID() }), /not found/i);
}

for (const [number, [binding, version]] of WAYS.entries()) {
  const slug = `js-${number}`;
  await admin('/agent-integrations', { name: slug, slug: `${slug}-int`, url: await agent(binding, version), auth_type: 'none' });
  await admin('/agent-servers', { name: slug, slug, agent_integration_id: `${slug}-int` });
  await conversation(slug, version);
  console.log(`ok ${binding} ${version}`);
}
process.exit(0);
