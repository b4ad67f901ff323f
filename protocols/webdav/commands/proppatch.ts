/** PROPPATCH (RFC 4918 §9.2): sets dead properties and modification times. Atomic: all changes or none. */
import { isGatewayError, type GatewayError } from '../../../src/base/errors.js'
import type { ChangeOptions } from '../../../src/tree/operation-options.js'
import type { Property, PropertyChange, PropertyName } from '../../../src/tree/virtual-fs.js'
import { parsePropertyUpdate } from '../bodies.js'
import { partStatuses, toErrorResponse } from '../errors.js'
import { isOverridable, keyOf, liveProperty, microsoftNamespace } from '../live-properties.js'
import { Multistatus, propertyResponse } from '../multistatus.js'
import { href, readBody, type Command, type WebdavRequest } from '../webdav-request.js'
import { davNamespace } from '../xml.js'

export const proppatch: Command = async (webdavRequest) => {
  const changes = parsePropertyUpdate(await readBody(webdavRequest, 'properties'))
  const entry = await webdavRequest.fs.stat(webdavRequest.path, webdavRequest.access)
  const target = href(webdavRequest, webdavRequest.path, entry.kind === 'folder')
  const classified = changes.map((change) => ({ name: nameOf(change), verdict: classify(change, webdavRequest) }))
  const refused = classified.filter(({ verdict }) => verdict === 'refused')
  const names = uniqueNames(classified.map(({ name }) => name))
  const failed = new Set(refused.map(({ name }) => keyOf(name)))
  if (failed.size === 0) {
    const modified = classified.map(({ verdict }) => verdict).findLast((verdict) => verdict instanceof Date)
    const stored = changes.filter((_, index) => classified[index]?.verdict === 'stored')
    const timeError = await apply(webdavRequest, stored, modified instanceof Date ? modified : undefined)
    if (timeError === undefined) {
      sendMultistatus(webdavRequest, propertyResponse(target, [{ status: 200, names }]))
      return
    }
    // The backend cannot store times: these properties fail, and the others fail as dependents (424).
    for (const { name, verdict } of classified) if (verdict instanceof Date) failed.add(keyOf(name))
    const groups = split(names, failed)
    const { status } = toErrorResponse(timeError)
    sendMultistatus(
      webdavRequest,
      propertyResponse(target, [
        { status, names: groups.failed },
        { status: partStatuses.failed_dependency, names: groups.others },
      ]),
    )
    return
  }
  const groups = split(names, failed)
  sendMultistatus(
    webdavRequest,
    propertyResponse(target, [
      { status: partStatuses.property_protected, names: groups.failed, error: 'cannot-modify-protected-property' },
      { status: partStatuses.failed_dependency, names: groups.others },
    ]),
  )
}

/** Classifies a change: stored as a dead property, a new modification time, or refused. */
function classify(change: PropertyChange, { fs }: WebdavRequest): 'stored' | 'refused' | Date {
  const name = nameOf(change)
  if ('set' in change) {
    const time = timeOf(change.set)
    if (time !== undefined) return Number.isNaN(time) ? 'refused' : new Date(time)
  }
  const isProtected = liveProperty(name) !== undefined && !isOverridable(name)
  return isProtected || !fs.mayChangeProperty(change) ? 'refused' : 'stored'
}

/**
 * The modification time that a property sets, in milliseconds since the epoch; NaN if its value is invalid. Undefined
 * for any other property. rclone sends `lastmodified` to servers of the ownCloud family (rclone/rclone#6976).
 */
function timeOf({ namespace, name, value }: Property): number | undefined {
  if (namespace === davNamespace && name === 'lastmodified') {
    return /^\d{1,11}(\.\d+)?$/.test(value.trim()) ? Number(value) * 1000 : NaN
  }
  const isDate =
    (namespace === davNamespace && name === 'getlastmodified') ||
    (namespace === microsoftNamespace && name === 'Win32LastModifiedTime')
  return isDate ? Date.parse(value.trim()) : undefined
}

/**
 * Applies the changes. Rejects with an error of the whole request: locks, preconditions, permissions. Resolves to an
 * error if the backend does not support setting times; nothing is changed then.
 */
async function apply(
  { fs, path, change }: WebdavRequest,
  changes: readonly PropertyChange[],
  modified: Date | undefined,
): Promise<GatewayError | undefined> {
  if (modified === undefined) {
    await fs.setProperties(path, changes, change)
    return undefined
  }
  const before = await fs.stat(path, change)
  try {
    await fs.setAttributes(path, { modified }, change)
  } catch (error) {
    // It is the status of the one property, and the others then fail with 424 (RFC 4918 §9.2).
    if (isGatewayError(error, 'unsupported')) return error
    throw error
  }
  if (changes.length === 0) return undefined
  // Without the preconditions, which were just met: the new time may have changed the entity tag.
  const rest: ChangeOptions = { signal: change.signal, password: change.password, lockTokens: change.lockTokens }
  try {
    await fs.setProperties(path, changes, rest)
  } catch (error) {
    await fs.setAttributes(path, { modified: before.modified }, rest)
    throw error
  }
  return undefined
}

function sendMultistatus({ response }: WebdavRequest, text: string): void {
  const multistatus = new Multistatus(response)
  multistatus.add(text)
  multistatus.end()
}

function split(names: readonly PropertyName[], failed: ReadonlySet<string>) {
  return {
    failed: names.filter((name) => failed.has(keyOf(name))),
    others: names.filter((name) => !failed.has(keyOf(name))),
  }
}

function nameOf(change: PropertyChange): PropertyName {
  const { namespace, name } = 'set' in change ? change.set : change.remove
  return { namespace, name }
}

function uniqueNames(names: readonly PropertyName[]): readonly PropertyName[] {
  return [...new Map(names.map((name) => [keyOf(name), name])).values()]
}
