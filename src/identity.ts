/** Whether two paths lead to one thing, such as two mounts of one folder do, or a view of a storage and the storage itself. */
import type { Identity } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import type { Place } from './mounts.js'
import { upwardFrom } from './path.js'

/** 'unknown': their backends tell too little of themselves. */
export type Sameness = 'same' | 'apart' | 'unknown'

/** 'same' where a change of one of them would change the other, or a part of it. */
export async function sameness(one: Place, other: Place, signal: AbortSignal): Promise<Sameness> {
  return compared(await identitiesOf(one, signal), await identitiesOf(other, signal))
}

/** Of the place and each folder above it, as far up as its storage reaches. */
export async function identitiesUpward({ storage, inner }: Place, signal: AbortSignal): Promise<readonly Identity[]> {
  const found: Identity[] = []
  for (const above of upwardFrom(inner)) found.push(...(await identitiesOf({ storage, inner: above }, signal)))
  return found
}

/** Whether it is one of these for sure. */
export async function isAmong(place: Place, others: readonly Identity[], signal: AbortSignal): Promise<boolean> {
  return compared(await identitiesOf(place, signal), others) === 'same'
}

function compared(some: readonly Identity[], others: readonly Identity[]): Sameness {
  // What is not there, or tells nothing.
  if (some.length === 0 || others.length === 0) return 'unknown'
  const pairs = some.flatMap((one) => others.map((other) => [one, other] as const))
  if (pairs.some(([one, other]) => one.realm === other.realm && one.name === other.name)) return 'same'
  return pairs.every(([one, other]) => one.realm === other.realm) ? 'apart' : 'unknown'
}

/** None for what is not there, and for a link that leads out. */
async function identitiesOf({ storage, inner }: Place, signal: AbortSignal): Promise<readonly Identity[]> {
  try {
    return await storage.identities(inner, { signal })
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'not_dir', 'denied')) return []
    throw error
  }
}

export function oneAndTheSame(): GatewayError {
  return new GatewayError('invalid', { reason: 'the source and the target are one and the same' })
}
