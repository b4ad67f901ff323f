/** A process that has ended and that its parent does not wait for, as of a killed daemon in a container without an init. */
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

/** Linux only. Gone at the test's end. */
export async function zombie(t: Test): Promise<Zombie> {
  // The shell becomes a program that waits for nobody.
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
