/** The thread of `bcrypt.ts`: computes one hash, and sends whether it matches. */
import { parentPort, workerData } from 'node:worker_threads'
import { compareSync } from 'bcryptjs'
import type { BcryptWork } from './bcrypt.js'

const { plain, hash } = workerData as BcryptWork
parentPort?.postMessage(compareSync(plain, hash))
