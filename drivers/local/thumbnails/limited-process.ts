/** Starts programs that decode untrusted files, with limits on what they may use of the machine. */
import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { FairShare } from '../../../src/base/fair-share.js'

/** Kibibytes that a program may allocate. Enough for a photo of 100 megapixels. */
const maxMemory = 768 * 1024

/**
 * Turns of decoders, for all storages and users. One user alone has half of them, so that the pictures of another one
 * never wait for more than one decoder. Decoders have little priority: what else runs gets ten times as much of a
 * processor.
 */
export const decoderTurns = new FairShare(Math.min(Math.max(availableParallelism(), 2), 4))

/**
 * If memory runs out, the system kills this process first. It can write no file, leaves no copy of its memory, and is
 * ended after so many seconds of processor time, even if the daemon is not there any more. A limit that is stricter
 * already stays.
 */
const script = `
echo 1000 2>/dev/null >/proc/self/oom_score_adj
ulimit -c 0
ulimit -f 0
ulimit -d ${maxMemory} || :
ulimit -t "$1" || :
shift
exec nice -n 10 "$@"
`

interface LimitedOptions extends Pick<SpawnOptions, 'stdio' | 'serialization'> {
  /** Seconds of processor time. */
  readonly processorTime: number
  /** Environment variables beside `PATH`. That of the daemon may contain secrets. */
  readonly env?: Readonly<Record<string, string>>
}

/** The exit status of a program that does not exist is 127, as in a shell. */
export function spawnLimited(program: string, args: readonly string[], options: LimitedOptions): ChildProcess {
  const { processorTime, env, ...others } = options
  return spawn('/bin/sh', ['-c', script, 'sh', String(processorTime), program, ...args], {
    ...others,
    cwd: '/',
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin', ...env },
  })
}
