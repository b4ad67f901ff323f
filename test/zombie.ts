/** A zombie process: it has ended, and its parent does not wait for it, as in a container without an init process. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'

interface Zombie {
  readonly pid: number
  /** Field 22 of its `/proc/PID/stat`. */
  readonly started: string
}

/** Linux only. The process is removed at the end of the test. */
export async function zombie(t: Test): Promise<Zombie> {
  // The shell is replaced by a program that does not wait for child processes.
  const parent = spawn('sh', ['-c', 'sleep 0.1 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] })
  t.teardown(() => parent.kill())
  const pid = await new Promise<number>((resolve) => {
    createInterface(parent.stdout).once('line', (line) => resolve(Number(line)))
  })
  for (;;) {
    const [, , state, ...fields] = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(' ')
    if (state === 'Z') return { pid, started: fields[18] ?? '' }
    await wait(20)
  }
}
