/**
 * `npm run soak`: the stories of a test run at full length, one after the other: 10 GiB through every protocol,
 * hundreds of kills, thousands of garbled sessions, half an hour of faults of nodes that share a database. Takes hours.
 * Its results are recorded in docs/soak.md.
 */
import { spawn } from 'node:child_process'

const sizes = {
  TIDEGATE_LARGE_MIB: '10240',
  TIDEGATE_STREAM_MIB: '10240',
  TIDEGATE_KILL_ROUNDS: '200',
  TIDEGATE_FUZZ_ROUNDS: '5000',
  TIDEGATE_LOAD_SECONDS: '600',
  TIDEGATE_CHAOS_SECONDS: '1800',
  TIDEGATE_RIGHTS_CASES: '100000',
  TIDEGATE_RIGHTS_PROTOCOL_CASES: '3000',
  TIDEGATE_AUDIT_OPERATIONS: '10000',
  TIDEGATE_REFUSALS: '1000000',
  TIDEGATE_SAMPLING: '1',
  TIDEGATE_VARIANTS: 'all',
}
const stories = [
  'stories/memory',
  'stories/transfers-memory',
  'stories/driver-streams',
  'stories/kill',
  'stories/transfers-kill',
  'stories/hostile',
  'stories/audit',
  'stories/audit-limits',
  'stories/webdav-load',
  'stories/rclone-kills',
  'security/turns',
  'cluster/chaos',
  'rights/judge',
  'rights/protocols',
  'rights/visitors',
  'stories/mounts',
  // Whose servers are also set up in other ways.
  'stories/driver-protocols',
  'stories/rapid-copy',
  'protocols/webdav/litmus',
  'drivers/rclone/rclone',
  'drivers/rclone/servers',
  'drivers/s3/s3',
  'drivers/smb/smb',
  'drivers/crypt/crypt',
  'drivers/quark/quark',
  'drivers/openlist/openlist',
  'drivers/aliyundrive/faults',
].map((name) => `test/${name}.test`)

const words = ['dist/test/run.js', '--jobs', '1', '--minutes', '240', ...stories]
const child = spawn(process.execPath, words, { stdio: 'inherit', env: { ...sizes, ...process.env } })
child.once('exit', (status) => {
  process.exitCode = status ?? 1
})
