/** Hashes of bcrypt, which other programs store. They are computed in a thread of their own. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

/** The work for one thread, which gets it as its `workerData`. */
export interface BcryptWork {
  readonly plain: string
  readonly hash: string
}

/** Whether a text is a hash of bcrypt whose cost, a power of two, is at most 12: about half a second of one core. */
export function isBcrypt(hash: string): boolean {
  return /^\$2[aby]\$(?:0[4-9]|1[0-2])\$[./A-Za-z0-9]{53}$/.test(hash)
}

/** Whether it is the password of the hash. */
export async function bcryptMatches(plain: string, hash: string): Promise<boolean> {
  const workerData: BcryptWork = { plain, hash }
  const worker = new Worker(new URL('./bcrypt-worker.js', import.meta.url), { workerData })
  try {
    const [isRight] = (await once(worker, 'message')) as [boolean]
    return isRight
  } finally {
    await worker.terminate()
  }
}
