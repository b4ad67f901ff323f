/** Loaded before each test file of the fast ring: whatever starts a process throws. */
import processes from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'

const refuse = (): never => {
  throw new Error('a test of the fast ring starts no process: see test/rings.ts')
}

// What spawn(), exec(), execFile() and fork() have in common, and what node:cluster calls.
Object.assign(processes.ChildProcess.prototype, { spawn: refuse })
Object.assign(processes, { spawnSync: refuse, execSync: refuse, execFileSync: refuse })
syncBuiltinESMExports()
