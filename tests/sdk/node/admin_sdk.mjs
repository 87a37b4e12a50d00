// The Admin API by the SDK of another gateway, unmodified: only base URL and key differ. Every method of what is
// built is called with all that it can send, and what it reads back is compared. This SDK turns the outer names of a body
// into snake_case, puts what the path says into it once more, and sends pages under two names.

import assert from 'node:assert/strict';
import { Portkey } from 'portkey-ai';
import { run, url } from './checks.mjs';
import { ABSENT, ADMIN, census } from './method_census.mjs';

const checks = {};
const check = (name, call) => {
  checks[name] = call;
};

const counted = census(ADMIN);

// The proxy port, as such clients have it: one address for both.
const admin = new Portkey({ apiKey: process.env.TEST_ADMIN_KEY, baseURL: `${url}/v1` });

const config = { strategy: { mode: 'single' }, targets: [{ provider: 'mock' }] };
const rates = [{ type: 'requests', unit: 'rpm', value: 5 }];
const budget = { type: 'cost', credit_limit: 10, alert_threshold: 5 };
const scopes = ['logs.view', 'completions.write', 'configs.list'];

/** The gateway refuses it, and says why in these words. */
async function refused(call, ...words) {
  let said;
  try {
    await call();
  } catch (error) {
    said = `${error.message} ${JSON.stringify(error.error)}`;
  }
  assert.ok(said, 'it was not refused');
  words.forEach((word) => assert.ok(said.includes(word), `${word} is not in ${said}`));
}

/** A user who accepted an invite without a seat; the SDK has no method for accepting. */
async function invited(email) {
  const made = await admin.admin.users.invites.create({ email, role: 'member' });
  const token = made.invite_link.split('#')[1];
  const body = { token, first_name: 'A', last_name: 'B' };
  const answer = await fetch(`${url}/v1/invites/accept`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.equal(answer.status, 200);
  return (await answer.json()).id;
}

check('guardrails', async () => {
  const feedback = { feedback: { value: 1, weight: 1, metadata: '' } };
  const actions = { deny: true, async: false, on_success: feedback, on_fail: feedback };
  const checks = [{ id: 'default.contains', name: 'n', is_enabled: true, parameters: { words: ['x'] } }];
  const body = { name: 'node', checks, actions };
  const made = await admin.guardrails.create({ ...body, workspace_id: 'default' });
  assert.ok(made.slug.startsWith('pg-') && made.version_id);
  const read = await admin.guardrails.retrieve({ guardrail_id: made.slug });
  assert.deepEqual([read.name, read.checks, read.actions], ['node', checks, actions]);
  const changed = await admin.guardrails.update({ ...body, guardrail_id: made.slug, name: 'node two', workspace_id: 'default' });
  assert.equal(changed.id, made.id);
  assert.notEqual(changed.version_id, made.version_id);
  const listed = await admin.guardrails.list({ workspace_id: 'default', page_size: 5, current_page: 0 });
  assert.ok(listed.data.some((row) => row.name === 'node two'));
  const shared = await admin.guardrails.create({ ...body, organisation_id: read.organisation_id });
  const above = await admin.guardrails.list({ organisation_id: read.organisation_id });
  assert.deepEqual(above.data.map((row) => row.slug), [shared.slug]);
  await refused(() => admin.guardrails.create({ ...body, checks: [{ id: 'contains' }] }), 'words', 'is required');
  for (const { slug } of [made, shared]) await admin.guardrails.delete({ guardrail_id: slug });
  await refused(() => admin.guardrails.retrieve({ guardrail_id: made.slug }));
});

check('configs', async () => {
  const made = await admin.configs.create({ name: 'node', config, isDefault: 0, workspace_id: 'default' });
  const slug = made.slug ?? made.data.slug;
  const read = await admin.configs.retrieve({ slug });
  assert.deepEqual((read.data ?? read).config.targets, config.targets);
  await admin.configs.update({ slug, name: 'node two', config, status: 'active' });
  const listed = await admin.configs.list({ workspace_id: 'default' });
  assert.ok(listed.data.some((row) => row.name === 'node two'));
  assert.ok((await admin.configs.list()).data.length);
  await admin.configs.delete({ slug });
  await refused(() => admin.configs.retrieve({ slug }));
});

check('api keys', async () => {
  for (const [type, part] of [['organisation', 'service'], ['workspace', 'service']]) {
    const own = type === 'organisation' ? ['logs.view', 'configs.list'] : scopes;
    const more = type === 'organisation' ? {} : { rate_limits: rates, usage_limits: budget, workspace_id: 'default' };
    const made = await admin.apiKeys.create({
      type, 'sub-type': part, name: 'node', description: 'd', scopes: own, expires_at: '2100-01-01T00:00:00Z', ...more,
    });
    let read = await admin.apiKeys.retrieve({ id: made.id });
    assert.deepEqual([read.type, read.scopes], [`${type}-${part}`, own]);
    const turned = [...own].reverse();
    await admin.apiKeys.update({ id: made.id, name: 'node two', scopes: turned });
    read = await admin.apiKeys.retrieve({ id: made.id });
    assert.deepEqual([read.name, read.scopes], ['node two', turned]);
    await admin.apiKeys.delete({ id: made.id });
  }
  const page = await admin.apiKeys.list({ page_size: 1, current_page: 0 });
  assert.ok(page.data.length === 1 && page.total > 1);
  assert.ok((await admin.apiKeys.list({ workspace_id: 'default' })).data.length);
});

check('integrations and providers', async () => {
  const slug = 'node-oa';
  await admin.integrations.create({
    name: 'Node', slug, description: 'd', ai_provider_id: 'openai', key: 'sk-1', configurations: {},
  });
  assert.equal((await admin.integrations.retrieve({ slug })).name, 'Node');
  await admin.integrations.update({ slug, name: 'Node two', description: 'e', key: 'sk-2', configurations: {} });
  const listed = await admin.integrations.list({ type: 'organisation', current_page: 0, page_size: 100 });
  assert.ok(listed.data.some((row) => row.slug === slug));
  await admin.integrations.models.update({ slug, allow_all_models: true, models: [{ slug: 'gpt-4o', enabled: false }] });
  assert.equal((await admin.integrations.models.list({ slug })).models[0].slug, 'gpt-4o');
  await admin.integrations.models.delete({ slug, slugs: 'gpt-4o' });
  assert.deepEqual((await admin.integrations.models.list({ slug })).models, []);
  await admin.integrations.workspaces.update({
    slug, workspaces: [{ id: 'default', enabled: false }], global_workspace_access: { enabled: true },
  });
  assert.equal((await admin.integrations.workspaces.list({ slug })).workspaces[0].enabled, false);
  await admin.integrations.workspaces.update({ slug, override_existing_workspaces_access: true });
  assert.deepEqual((await admin.integrations.workspaces.list({ slug })).workspaces, []);

  const own = { slug: 'node-own', workspace_id: 'default' };
  await admin.providers.create({
    ...own, name: 'Node', integration_id: slug, note: 'n', rate_limits: rates, usage_limits: budget,
    expires_at: '2100-01-01T00:00:00Z',
  });
  assert.equal((await admin.providers.retrieve(own)).note, 'n');
  await admin.providers.update({ ...own, name: 'Node two', note: 'm', reset_usage: true });
  const providers = await admin.providers.list({ workspace_id: 'default', current_page: 0, page_size: 100 });
  assert.ok(providers.data.some((row) => row.name === 'Node two'));
  await admin.providers.delete(own);
  await admin.integrations.delete({ slug });
  await refused(() => admin.integrations.retrieve({ slug }));
});

check('virtual keys', async () => {
  const made = await admin.virtualKeys.create({
    name: 'Node Azure', provider: 'azure-openai', key: 'k-1', note: null, apiVersion: '2024-10-21', resourceName: 'res',
    deploymentName: 'gpt-4o', workspace_id: 'default', usage_limits: budget,
  });
  const slug = made.slug ?? made.data.slug;
  const read = await admin.virtualKeys.retrieve({ slug });
  const wanted = { apiVersion: '2024-10-21', resourceName: 'res', deploymentName: 'gpt-4o' };
  assert.deepEqual(read.model_config, wanted);
  await admin.virtualKeys.update({ slug, name: 'Node two', key: 'k-2', note: 'm', usage_limits: budget, rate_limits: rates });
  const listed = await admin.virtualKeys.list({ workspace_id: 'default' });
  assert.ok(listed.data.some((row) => row.name === 'Node two'));
  await admin.virtualKeys.delete({ slug });
  const plain = { name: 'Node Plain', provider: 'openai', key: 'k', apiVersion: null, resourceName: null };
  const other = await admin.virtualKeys.create(plain);
  await admin.virtualKeys.delete({ slug: other.slug ?? other.data.slug });
});

check('workspaces and members', async () => {
  const { workspaces } = admin.admin;
  const made = await workspaces.create({ name: 'Node', description: 'd', defaults: { metadata: { a: 'b' } }, users: [] });
  const workspaceId = made.id;
  assert.equal((await workspaces.retrieve({ workspaceId })).description, 'd');
  await workspaces.update({ workspaceId, name: 'Node two', description: 'e', defaults: { metadata: {} } });
  const page = await workspaces.list({ page_size: 1, current_page: 0 });
  assert.ok(page.data.length === 1 && page.total > 1);
  assert.deepEqual((await workspaces.list({ exact_name: 'Node two' })).data.map((row) => row.id), [workspaceId]);
  const userId = await invited('node-seat@example.com');
  await workspaces.users.create({ workspaceId, users: [{ id: userId, role: 'member' }] });
  await workspaces.users.update({ workspaceId, userId, role: 'manager' });
  assert.equal((await workspaces.users.retrieve({ workspaceId, userId })).role, 'manager');
  const found = await workspaces.users.list({ workspaceId, role: 'manager', page_size: 5, current_page: 0 });
  assert.equal(found.total, 1);
  await workspaces.users.delete({ workspaceId, userId });
  await workspaces.delete({ workspaceId, name: 'Node two' });
  await refused(() => workspaces.retrieve({ workspaceId }));
});

check('users and invites', async () => {
  const { users } = admin.admin;
  const email = 'node@example.com';
  const seats = [{ id: 'default', role: 'member' }];
  const made = await users.invites.create({
    email, role: 'member', workspaces: seats, workspace_api_key_details: { scopes: scopes.slice(0, 2) },
  });
  const inviteId = made.id;
  assert.equal((await users.invites.retrieve({ inviteId })).email, email);
  const found = await users.invites.list({ email, role: 'member', status: 'pending', pageSize: 10, currentPage: 0 });
  assert.equal(found.total, 1);
  await users.invites.resend({ inviteId });
  await users.invites.delete({ inviteId });
  const userId = await invited('node-gone@example.com');
  assert.equal((await users.retrieve({ userId })).email, 'node-gone@example.com');
  await users.update({ userId, role: 'admin' });
  const listed = await users.list({ role: 'admin', email: 'node-gone@example.com', pageSize: 10, currentPage: 0 });
  assert.equal(listed.total, 1);
  await users.delete({ userId });
  await refused(() => users.retrieve({ userId }));
});

const span = { time_of_generation_min: '2025-01-01T00:00:00Z', time_of_generation_max: '2030-01-01T00:00:00Z' };

check('analytics', async () => {
  const { graphs, groups, summary } = admin.analytics;
  // Some of them by paths that the public API writes otherwise.
  const names = [
    'requests', 'cost', 'latency', 'tokens', 'users', 'usersRequests', 'errors', 'errors_rate', 'errors_stack', 'errors_status_code',
    'requests_rescued', 'cache_hit_rate', 'cache_latency', 'feedbacks', 'feedbacks_score', 'feedbacks_weighted', 'feedback_ai_models',
  ];
  for (const name of names) {
    const graph = await graphs[name]({ ...span, workspace_slug: 'default' });
    assert.equal(graph.object, 'analytics-graph', name);
  }
  for (const name of ['users', 'aiModels', 'workspaces']) {
    assert.equal((await groups[name]({ ...span, page_size: 5, order_by: 'cost', order_by_type: 'asc' })).object, 'list');
  }
  assert.equal((await groups.metadata('team', span)).object, 'list');
  for (const by of ['ai_service', 'model', 'status_code', 'api_key', 'config', 'workspace', 'provider']) {
    assert.equal((await groups.groupedData(by, { ...span, columns: 'requests,cost' })).object, 'list');
  }
  assert.equal((await summary.cache({ ...span, workspace_slug: 'default' })).object, 'analytics-summary');
  assert.equal((await graphs.cost({ ...span, prompt_slug: 'p' })).object, 'analytics-graph');
  await refused(() => graphs.cost({ ...span, status_code: 'many' }), 'status_code');
});

check('logs and exports', async () => {
  const made = await admin.logs.exports.create({ filters: { ai_model: 'none' }, workspaceId: 'default', requestedData: ['id'] });
  assert.deepEqual([made.total, made.object], [0, 'export']);
  await admin.logs.exports.update({ exportId: made.id, filters: { status_code: '200' }, requestedData: ['cost'] });
  assert.deepEqual((await admin.logs.exports.start({ exportId: made.id })).message, 'Export started');
  let told;
  do {
    told = await admin.logs.exports.retrieve({ exportId: made.id });
  } while (told.status === 'in_progress');
  assert.deepEqual([told.status, told.requested_data], ['success', ['cost']]);
  const found = (await admin.logs.exports.list({ workspaceId: 'default' })).data.find((row) => row.id === made.id);
  assert.deepEqual(found.status, 'success');
  const { signed_url: link } = await admin.logs.exports.download({ exportId: made.id });
  assert.deepEqual((await fetch(link)).status, 200);
  await refused(() => admin.logs.exports.cancel({ exportId: made.id }), 'not in progress');
});

check('logs of ones own', async () => {
  const body = { type: 'workspace', 'sub-type': 'service', name: 'teller', scopes: ['logs.write', 'completions.write'] };
  const { key } = await admin.apiKeys.create(body);
  const teller = new Portkey({ apiKey: key, baseURL: `${url}/v1` });
  const request = { url: 'https://api.openai.com/v1/embeddings', method: 'POST', body: { model: 'text-embedding-3-small' } };
  const response = { status: 200, body: { usage: { prompt_tokens: 5, total_tokens: 5 } }, response_time: 12 };
  await teller.logs.create({ request, response, metadata: { trace_id: 'node-own' } });
});

check('mcp', async () => {
  const { mcpIntegrations: integrations, mcpServers: servers } = admin;
  const made = await integrations.create({
    name: 'Node', slug: 'node-mcp', url: 'http://127.0.0.1:9/mcp', auth_type: 'none', transport: 'http', description: 'd',
  });
  const here = { id: made.slug };
  await integrations.update({ ...here, name: 'Node two', description: 'e' });
  const read = await integrations.retrieve(here);
  assert.deepEqual([read.name, read.description, read.auth_type], ['Node two', 'e', 'none']);
  const listed = await integrations.list({ type: 'organisation', page_size: 5, search: 'node' });
  assert.ok(listed.data.some((row) => row.slug === made.slug));
  await integrations.workspaces.update({ ...here, workspaces: [{ id: 'default', enabled: true }] });
  assert.equal((await integrations.workspaces.list(here)).workspaces[0].enabled, true);
  const capabilities = [{ name: 'send', type: 'tool', enabled: false }];
  await integrations.capabilities.update({ ...here, capabilities });
  assert.equal((await integrations.capabilities.list(here)).data[0].enabled, false);
  assert.ok(await integrations.metadata.get(here));
  assert.ok('success' in (await integrations.test(here)));

  const server = await servers.create({ name: 'Node', slug: 'node-server', mcp_integration_id: made.slug, workspace_id: 'default' });
  const one = { id: server.slug };
  await servers.update({ ...one, name: 'Node two', description: 'e' });
  assert.equal((await servers.retrieve(one)).name, 'Node two');
  assert.deepEqual((await servers.list({ workspace_id: 'default', search: 'node' })).data.map((row) => row.slug), [server.slug]);
  await servers.capabilities.update({ ...one, capabilities });
  assert.equal((await servers.capabilities.list(one)).data[0].enabled, false);
  const user = await invited('mcp@example.com');
  await admin.admin.workspaces.users.create({ workspaceId: 'default', users: [{ id: user, role: 'member' }] });
  await servers.userAccess.update({ ...one, user_access: [{ user_id: user, enabled: true }], default_user_access: 'deny' });
  const access = await servers.userAccess.list(one);
  assert.deepEqual([access.default_user_access, access.data[0].enabled], ['deny', true]);
  assert.ok(await servers.metadata.get(one));
  assert.equal((await servers.connections.list({ ...one, page_size: 5 })).total, 0);
  await servers.connections.delete({ ...one, user_id: user });
  assert.ok('success' in (await servers.test(one)));
  for (const path of ABSENT) {
    const parts = path.split('.');
    const method = parts.pop();
    const owner = parts.reduce((value, part) => value[part], admin);
    await refused(() => owner[method](path.startsWith('mcpIntegrations') ? here : one), 'no such route');
  }
  await servers.delete(one);
  await integrations.delete(here);
  await refused(() => integrations.retrieve(here));
});

check('feedback', async () => {
  const body = { type: 'workspace', 'sub-type': 'service', name: 'judge', scopes: ['logs.write'] };
  const { key } = await admin.apiKeys.create(body);
  const judge = new Portkey({ apiKey: key, baseURL: `${url}/v1` });
  const told = await judge.feedback.create({ traceID: 'node', value: 5, weight: 0.5 });
  assert.equal(told.status, 'success');
  await judge.feedback.update({ feedbackID: told.feedback_ids[0], value: -5 });
  const graph = await admin.analytics.graphs.feedbacks_weighted({ ...span, trace_id: 'node' });
  assert.equal(graph.summary.avg, -5);
});

check('what cannot be done is said', async () => {
  await refused(() => admin.configs.create({ name: 'x', config: { nonsense: 1 } }), 'nonsense');
  await refused(() => admin.admin.workspaces.list({ colour: 'red' }), 'colour', 'not a known parameter');
});

check('that no method is left', async () => counted.close());

await run(checks);
