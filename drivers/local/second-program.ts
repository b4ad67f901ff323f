/** The program of the second thread, see `second-thread.ts`. */
import { parentPort } from 'node:worker_threads'
import { work } from './orders.js'
import type { Message, Reply } from './second-thread.js'

parentPort?.on('message', ({ id, kind, order }: Message) => {
  const reply: Reply = { id, answer: work[kind](order as never) }
  parentPort?.postMessage(reply)
})
