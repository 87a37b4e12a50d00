// The official conformance suite plays servers, and judges what the gateway sends them as their client: with a key of the
// gateway's own, and with accounts of people at servers that sign them in.

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

/** Sign-in at servers. */
const OLD = ['metadata-default', 'metadata-var1', 'metadata-var2', 'metadata-var3', 'scope-from-www-authenticate',
  'scope-from-scopes-supported', 'scope-omitted-when-undefined', 'token-endpoint-auth-basic', 'token-endpoint-auth-post',
  'token-endpoint-auth-none', 'pre-registration', 'basic-cimd', 'scope-step-up', 'scope-retry-limit'];
const NEW = ['resource-mismatch', 'offline-access-scope', 'offline-access-not-supported', 'iss-supported', 'iss-not-advertised',
  'iss-supported-missing', 'iss-wrong-issuer', 'iss-unexpected', 'iss-normalized', 'metadata-issuer-mismatch',
  'authorization-server-migration'];
const ACCOUNTS = [
  ...OLD.map((name) => [`auth/${name}`, '2025-11-25']),
  ...[...OLD, ...NEW].map((name) => [`auth/${name}`, '2026-07-28']),
];

const beside = (script) => `node ${fileURLToPath(new URL(script, import.meta.url))}`;
const wanted = process.argv[2];
for (const [scenario, version] of [...SCENARIOS, ...ACCOUNTS].filter(([name]) => !wanted || name === wanted)) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
  const caller = beside(scenario.startsWith('auth/') ? 'conformance_account.mjs' : 'conformance_caller.mjs');
  const args = [SUITE, 'client', '--scenario', scenario, '--spec-version', version, '--command', caller];
  await run(NODE, [...args, '--output-dir', folder], { mayFail: true });
  const [found] = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('checks.json'));
  const checks = JSON.parse(readFileSync(join(folder, found), 'utf8'));
  rmSync(folder, { recursive: true });
  // How late somebody comes back is a matter of the machine; too early would be ours.
  const of = (status) => checks.filter((check) => check.status === status && !(check.details?.slightlyLate || check.details?.veryLate));
  assert.deepEqual([...of('FAILURE'), ...of('WARNING')], [], `${scenario} at ${version}`);
  assert.ok(of('SUCCESS').length > 0, `nothing of ${scenario} at ${version} was tried`);
  console.log(`ok ${scenario} at ${version}: ${of('SUCCESS').length}`);
}
