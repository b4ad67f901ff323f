/**
 * How a gateway recognizes requests of its own storages. One that mounts itself would pass each request on to itself,
 * until no connection of the storage is left and all of them wait for one another.
 */
import { createHash } from 'node:crypto'
import type { Instance } from './driver-env.js'

/**
 * The name of this run in requests to other servers: a pseudonym in `Via` (RFC 9110 §7.6.3), and the software version
 * of an SSH client (RFC 4253 §4.2). Tells nothing about the machine.
 */
export function pseudonymOf({ name }: Pick<Instance, 'name'>): string {
  return `Tidegate_${createHash('sha256').update(name).digest('hex').slice(0, 20)}`
}

/** Whether the header `Via` of a request has the pseudonym. */
export function hasPassed(via: string | undefined, pseudonym: string): boolean {
  return via?.split(',').some((each) => each.trim().split(/\s+/)[1] === pseudonym) === true
}
