/** A run of the command line. */
import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** The program. */
export const main = fileURLToPath(new URL('../../src/main.js', import.meta.url))

export interface Outcome {
  /** The exit status; null: a signal has ended the program. */
  readonly status: number | null
  readonly out: string
  readonly err: string
}

/** What a process has printed, when it has ended. */
export async function outcomeOf(child: ChildProcessWithoutNullStreams): Promise<Outcome> {
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const [status] = (await once(child, 'close')) as [number | null]
  return { status, out, err }
}
