// Saved prompts by the SDK of another gateway, unmodified: only base URL and key differ. Every method of it for prompts,
// partials, collections and labels is called, and what a prompt becomes is read from the answer of the model.

import assert from 'node:assert/strict';
import { Portkey } from 'portkey-ai';
import { run, url } from './checks.mjs';
import { PROMPTS, census } from './method_census.mjs';

const checks = {};
const check = (name, call) => {
  checks[name] = call;
};

const counted = census(PROMPTS);

// The proxy port, as such clients have it: one address for both.
const admin = new Portkey({ apiKey: process.env.TEST_ADMIN_KEY, baseURL: `${url}/v1` });
const client = new Portkey({ apiKey: process.env.TEST_KEY, baseURL: `${url}/v1`, provider: 'mock' });
const echo = 'You said: hello there';
const variables = { where: 'there' };

async function prompt(string) {
  const home = (await admin.collections.list({ workspace_id: 'default' })).data[0].id;
  const fields = { name: 'node', collection_id: home, string, parameters: { max_tokens: 50 }, model: 'mock-large' };
  return (await admin.prompts.create(fields)).slug;
}

check('a prompt is completed, streamed and rendered', async () => {
  const slug = await prompt('hello {{where}}');
  const said = await client.prompts.completions.create({ promptID: slug, variables });
  assert.equal(said.choices[0].message.content, echo);
  const chunks = await client.prompts.completions.create({ promptID: slug, variables, stream: true });
  let text = '';
  for await (const chunk of chunks) text += chunk.choices[0]?.delta?.content ?? '';
  assert.equal(text, echo);
  const shown = await client.prompts.render({ promptID: slug, variables, temperature: 0.5 });
  assert.equal(shown.data.messages[0].content, 'hello there');
  assert.deepEqual([shown.data.temperature, shown.data.max_tokens], [0.5, 50]);
  await assert.rejects(async () => client.prompts.completions.create({ promptID: 'pp-none', variables }));
});

check('versions and labels', async () => {
  const slug = await prompt('one');
  await admin.prompts.update(slug, { string: 'two', parameters: {}, model: 'mock-large' });
  assert.equal((await admin.prompts.retrieve(slug)).string, 'one');
  await admin.prompts.publish(slug, { version: 2 });
  assert.equal((await admin.prompts.retrieve(slug)).string, 'two');
  const versions = (await admin.prompts.versions.list(slug)).data;
  assert.deepEqual(versions.map((v) => v.prompt_version), [2, 1]);
  const label = (await admin.labels.create({ name: 'node', workspace_id: 'default', color_code: '#111111' })).id;
  await admin.prompts.versions.update(slug, versions[1].id, { label_id: label });
  assert.equal((await admin.prompts.versions.retrieve(slug, versions[1].id)).prompt_version_label_id, label);
  const shown = await client.prompts.render({ promptID: `${slug}@node`, variables: {} });
  assert.equal(shown.data.messages[0].content, 'one');
  await admin.labels.update(label, { name: 'node-2' });
  assert.equal((await admin.labels.retrieve(label)).name, 'node-2');
  assert.ok((await admin.labels.list({ workspace_id: 'default' })).data.some((row) => row.id === label));
  await admin.prompts.delete(slug);
  await admin.labels.delete(label);
});

check('partials', async () => {
  const made = await admin.prompts.partials.create({ name: 'node', string: 'hello {{where}}', workspace_id: 'default' });
  const partial = made.slug;
  const slug = await prompt(`{{>${partial}}}`);
  const said = await client.prompts.completions.create({ promptID: slug, variables });
  assert.equal(said.choices[0].message.content, echo);
  await admin.prompts.partials.update(partial, { string: 'other', description: 'second' });
  await admin.prompts.partials.publish(partial, { version: 2 });
  assert.equal((await admin.prompts.partials.retrieve(partial)).string, 'other');
  assert.equal((await admin.prompts.partials.versions.list(partial)).data.length, 2);
  assert.ok((await admin.prompts.partials.list({})).data.some((row) => row.slug === partial));
  await admin.prompts.delete(slug);
  await admin.prompts.partials.delete(partial);
});

check('collections', async () => {
  const made = (await admin.collections.create({ name: 'node', workspace_id: 'default' })).id;
  const fields = { name: 'inner', workspace_id: 'default', parent_collection_id: made };
  const inner = (await admin.collections.create(fields)).id;
  await admin.collections.update(made, { name: 'node two' });
  const read = await admin.collections.retrieve(made);
  assert.deepEqual([read.name, read.child_collections[0].id], ['node two', inner]);
  const { slug } = await admin.prompts.create({ name: 'n', collection_id: inner, string: 'x', parameters: {} });
  const listed = await admin.prompts.list({ collection_id: inner, workspace_id: 'default', search: 'N', page_size: 5 });
  assert.deepEqual(listed.data.map((row) => row.slug), [slug]);
  await admin.prompts.delete(slug);
  await admin.collections.delete(inner);
  await admin.collections.delete(made);
});

check('that no method is left', async () => counted.close());

await run(checks);
