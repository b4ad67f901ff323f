/**
 * Determines whether two paths lead to the same file or folder, such as two mounts of one folder, or a view and the
 * storage below it.
 */
import type { Identity } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import { selfAndAncestors } from '../contract/path.js'
import type { MountedPath } from '../storage/mounts.js'

/** 'unknown': the identities of their backends cannot be compared. */
export type Sameness = 'same' | 'distinct' | 'unknown'

/** 'same' if a change of one would change the other, or a part of it. */
export async function sameness(first: MountedPath, second: MountedPath, signal: AbortSignal): Promise<Sameness> {
  return compareIdentities(await identitiesOf(first, signal), await identitiesOf(second, signal))
}

/** Identities of the path and of each folder above it, up to the root of its storage. */
export async function identitiesUpward(
  { storage, inner }: MountedPath,
  signal: AbortSignal,
): Promise<readonly Identity[]> {
  const identities: Identity[] = []
  for (const above of selfAndAncestors(inner))
    identities.push(...(await identitiesOf({ storage, inner: above }, signal)))
  return identities
}

/** Whether the path is certainly one of these. */
export async function matchesAny(
  place: MountedPath,
  others: readonly Identity[],
  signal: AbortSignal,
): Promise<boolean> {
  return compareIdentities(await identitiesOf(place, signal), others) === 'same'
}

export function compareIdentities(
  firstIdentities: readonly Identity[],
  secondIdentities: readonly Identity[],
): Sameness {
  // The entry does not exist, or its backend reports no identity.
  if (firstIdentities.length === 0 || secondIdentities.length === 0) return 'unknown'
  const pairs = firstIdentities.flatMap((first) => secondIdentities.map((second) => [first, second] as const))
  if (pairs.some(([first, second]) => first.namespace === second.namespace && first.name === second.name)) return 'same'
  return pairs.every(([first, second]) => first.namespace === second.namespace) ? 'distinct' : 'unknown'
}

/** Empty for a path that does not exist, and for a symlink that leads outside the storage. */
export async function identitiesOf(
  { storage, inner }: MountedPath,
  signal: AbortSignal | undefined,
): Promise<readonly Identity[]> {
  try {
    return await storage.identities(inner, { signal })
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'not_folder', 'denied')) return []
    throw error
  }
}

export function sameFileError(): GatewayError {
  return new GatewayError('invalid', { reason: 'the source and the target are one and the same' })
}
