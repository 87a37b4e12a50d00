// The official conformance suite plays servers, and judges what the gateway sends them as their client.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NODE, SUITE, run } from './place.mjs';

/** What a client is tried with that keeps no tokens of its own. */
const SCENARIOS = [
  ['initialize', '2025-06-18'],
  ['initialize', '2025-11-25'],
  ['tools_call', '2025-06-18'],
  ['tools_call', '2025-11-25'],
  ['tools_call', '2026-07-28'],
  ['elicitation-sep1034-client-defaults', '2025-11-25'],
  ['sse-retry', '2025-11-25'],
  ['json-schema-2020-12-preservation', '2025-11-25'],
  ['json-schema-2020-12-preservation', '2026-07-28'],
  ['request-metadata', '2026-07-28'],
  ['sep-2322-client-request-state', '2026-07-28'],
  ['http-standard-headers', '2026-07-28'],
  ['http-custom-headers', '2026-07-28'],
  ['http-invalid-tool-headers', '2026-07-28'],
  ['json-schema-ref-no-deref', '2026-07-28'],
];

const caller = `node ${fileURLToPath(new URL('conformance_caller.mjs', import.meta.url))}`;
const wanted = process.argv[2];
for (const [scenario, version] of SCENARIOS.filter(([name]) => !wanted || name === wanted)) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
  const args = [SUITE, 'client', '--scenario', scenario, '--spec-version', version, '--command', caller];
  await run(NODE, [...args, '--output-dir', folder], { mayFail: true });
  const [found] = readdirSync(folder);
  const checks = JSON.parse(readFileSync(join(folder, found, 'checks.json'), 'utf8'));
  rmSync(folder, { recursive: true });
  const of = (status) => checks.filter((check) => check.status === status);
  assert.deepEqual([...of('FAILURE'), ...of('WARNING')], [], `${scenario} at ${version}`);
  assert.ok(of('SUCCESS').length > 0, `nothing of ${scenario} at ${version} was tried`);
  console.log(`ok ${scenario} at ${version}: ${of('SUCCESS').length}`);
}
