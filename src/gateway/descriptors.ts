/** The file descriptors of this process, which connections, open files and listings share. */
import { readFileSync } from 'node:fs'
import { FairShare } from '../base/fair-share.js'

/** Descriptors for what no client holds: the database, storages, the files of short calls, child processes. */
const minReserve = 64
const reserveFraction = 1 / 8
/** The maximum, even if the system allows more: each descriptor takes memory too. */
const maxTotal = 32_768
/** Assumed if the limit of the system cannot be read. */
const unknownLimit = 1024

/** A new account of the descriptors. One process has one. */
export function processDescriptors(): FairShare {
  const limit = descriptorLimit()
  const total = Math.max(1, Math.floor(limit - Math.max(minReserve, limit * reserveFraction)))
  return new FairShare(Math.min(total, maxTotal), { reason: 'too many files and connections are open' })
}

/** The soft limit of the process, which Node raises to the hard one when it starts (Node.js: src/node.cc). */
function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === 'unlimited' ? 2 * maxTotal : Number(soft ?? unknownLimit)
  } catch {
    return unknownLimit
  }
}
