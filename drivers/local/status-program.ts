/** The program of the thread that looks at names, see `status-thread.ts`. */
import { lstatSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { statusOf } from './entry.js'
import { numbersPerName, type StatusAnswer, type StatusOrder } from './status-thread.js'

parentPort?.on('message', ({ id, prefix, names }: StatusOrder) => {
  const all = names.split('\0')
  const numbers = new Float64Array(all.length * numbersPerName)
  const revisions = all.map((name, index) => {
    const stats = lookedAt(prefix + name)
    if (!stats) return ''
    const { revision, mode, size, modified, created } = statusOf(stats)
    numbers.set([mode, size, modified, created], index * numbersPerName)
    return revision
  })
  const answer: StatusAnswer = { id, revisions: revisions.join('\0'), numbers }
  parentPort?.postMessage(answer, [numbers.buffer])
})

/** Whatever cannot be looked at here is looked at, and told of, by the one who asked. */
function lookedAt(path: string) {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false })
  } catch {
    return undefined
  }
}
