/** The entry point of the worker thread, see `worker-thread.ts`. */
import { parentPort } from 'node:worker_threads'
import { jobs } from './worker-jobs.js'
import type { Message, Reply } from './worker-thread.js'

parentPort?.on('message', ({ id, kind, job: order }: Message) => {
  const reply: Reply = { id, result: jobs[kind](order as never) }
  parentPort?.postMessage(reply)
})
