// Files and batches of the gateway's own by the official `openai` package, as its users call them.

import assert from 'node:assert/strict';
import OpenAI, { toFile } from 'openai';
import { collect, key, provider, raises, run, url } from './checks.mjs';

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const sent = { headers: { 'x-gateway-provider': provider } };

function content(count) {
  const line = (number) => {
    const body = { model: 'mock-large', messages: [{ role: 'user', content: `number ${number}` }] };
    return `${JSON.stringify({ custom_id: `n-${number}`, method: 'POST', url: '/v1/chat/completions', body })}\n`;
  };
  return Array.from({ length: count }, (_, number) => line(number)).join('');
}

const upload = async (count) => client.files.create({ file: await toFile(Buffer.from(content(count)), 'lines.jsonl'), purpose: 'batch' });

const create = (input_file_id, more = {}) =>
  client.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: 'immediate', ...more }, sent);

async function ended(made) {
  for (let look = 0; look < 600; look += 1) {
    const batch = await client.batches.retrieve(made.id);
    if (['completed', 'failed', 'cancelled', 'expired'].includes(batch.status)) return batch;
    await new Promise((done) => setTimeout(done, 50));
  }
  return assert.fail(`the batch did not end: ${made.id}`);
}

await run({
  async 'files are made, listed, read and deleted'() {
    const file = await upload(3);
    assert.deepEqual([file.object, file.purpose, file.filename, file.bytes], ['file', 'batch', 'lines.jsonl', content(3).length]);
    assert.deepEqual(await client.files.retrieve(file.id), file);
    assert.equal(await (await client.files.content(file.id)).text(), content(3));
    const listed = await collect(await client.files.list({ purpose: 'batch', limit: 1 }));
    assert.ok(listed.some(({ id }) => id === file.id));
    assert.equal((await client.files.delete(file.id)).deleted, true);
    await raises(OpenAI.NotFoundError, () => client.files.retrieve(file.id));
  },

  async 'a batch is made, looked at, listed and read'() {
    const made = await create((await upload(5)).id, { metadata: { of: 'sdk' } });
    assert.deepEqual([made.status, made.metadata], ['validating', { of: 'sdk' }]);
    const batch = await ended(made);
    assert.deepEqual([batch.status, batch.request_counts], ['completed', { total: 5, completed: 5, failed: 0 }]);
    const text = await (await client.files.content(batch.output_file_id)).text();
    const lines = text.trim().split('\n').map((line) => JSON.parse(line));
    const said = Object.fromEntries(lines.map((line) => [line.custom_id, line.response.body.choices[0].message.content]));
    assert.deepEqual(said, Object.fromEntries([0, 1, 2, 3, 4].map((number) => [`n-${number}`, `You said: number ${number}`])));
    assert.ok((await collect(await client.batches.list({ limit: 1 }))).some(({ id }) => id === batch.id));
    assert.equal((await client.batches.cancel(batch.id)).status, 'completed');
  },

  async 'what is unknown or wrong is told'() {
    await raises(OpenAI.NotFoundError, () => create(`gw_file_${'0'.repeat(32)}`));
    const { id } = await upload(1);
    await raises(OpenAI.BadRequestError, () => create(id, { completion_window: '12h' }));
  },
});
