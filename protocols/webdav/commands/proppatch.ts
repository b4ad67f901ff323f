/** PROPPATCH (RFC 4918 §9.2): dead properties of any name, and the times that clients set this way; all or nothing. */
import type { Change } from '../../../src/change.js'
import { isGatewayError, type GatewayError } from '../../../src/errors.js'
import type { Property, PropertyChange, PropertyName } from '../../../src/properties.js'
import { propertyChanges } from '../bodies.js'
import { toRefusal } from '../errors.js'
import { href, type Command, type Exchange } from '../exchange.js'
import { isOverridable, keyOf, liveProperty, microsoft } from '../live-properties.js'
import { Multistatus, propertyResponse } from '../multistatus.js'
import { davNamespace, readXml } from '../xml.js'

export const proppatch: Command = async (exchange) => {
  const changes = propertyChanges(await readXml(exchange.request))
  const entry = await exchange.fs.stat(exchange.path, exchange.ask)
  const target = href(exchange, exchange.path, entry.kind === 'folder')
  const judged = changes.map((change) => ({ name: nameOf(change), verdict: judge(change) }))
  const refused = judged.filter(({ verdict }) => verdict === 'refused')
  const names = uniqueNames(judged.map(({ name }) => name))
  const failed = new Set(refused.map(({ name }) => keyOf(name)))
  if (failed.size === 0) {
    const modified = judged.map(({ verdict }) => verdict).findLast((verdict) => verdict instanceof Date)
    const kept = changes.filter((_, index) => judged[index]?.verdict === 'kept')
    const refusal = await apply(exchange, kept, modified instanceof Date ? modified : undefined)
    if (refusal === undefined) {
      answer(exchange, propertyResponse(target, [{ status: 200, names }]))
      return
    }
    // A backend that cannot keep a time refuses that property alone.
    for (const { name, verdict } of judged) if (verdict instanceof Date) failed.add(keyOf(name))
    const groups = split(names, failed)
    const { status } = toRefusal(refusal)
    answer(
      exchange,
      propertyResponse(target, [
        { status, names: groups.failed },
        { status: 424, names: groups.others },
      ]),
    )
    return
  }
  const groups = split(names, failed)
  answer(
    exchange,
    propertyResponse(target, [
      { status: 403, names: groups.failed, error: 'cannot-modify-protected-property' },
      { status: 424, names: groups.others },
    ]),
  )
}

/** What becomes of one change: kept as a dead property, taken as the modification time, or refused. */
function judge(change: PropertyChange): 'kept' | 'refused' | Date {
  const name = nameOf(change)
  if ('set' in change) {
    const time = timeOf(change.set)
    if (time !== undefined) return Number.isNaN(time) ? 'refused' : new Date(time)
  }
  return liveProperty(name) && !isOverridable(name) ? 'refused' : 'kept'
}

/**
 * Milliseconds that a property asks for as the modification time, NaN where it is no time; undefined for any other
 * property. `lastmodified` is the one that rclone sends to servers of the ownCloud family.
 */
function timeOf({ namespace, name, value }: Property): number | undefined {
  if (namespace === davNamespace && name === 'lastmodified') {
    return /^\d{1,11}(\.\d+)?$/.test(value.trim()) ? Number(value) * 1000 : NaN
  }
  const isDate =
    (namespace === davNamespace && name === 'getlastmodified') ||
    (namespace === microsoft && name === 'Win32LastModifiedTime')
  return isDate ? Date.parse(value.trim()) : undefined
}

/**
 * Rejects with what judges the whole request (locks, conditions, rights). Resolves to an error that is about the
 * time alone, in which case nothing was changed.
 */
async function apply(
  { fs, path, change }: Exchange,
  kept: readonly PropertyChange[],
  modified: Date | undefined,
): Promise<GatewayError | undefined> {
  if (modified === undefined) {
    await fs.setProperties(path, kept, change)
    return undefined
  }
  const before = await fs.stat(path, change)
  try {
    await fs.setAttributes(path, { modified }, change)
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return error
    throw error
  }
  if (kept.length === 0) return undefined
  // Conditions were true a moment ago; an entity tag of them may have changed with the time.
  const rest: Change = { signal: change.signal, password: change.password, lockTokens: change.lockTokens }
  try {
    await fs.setProperties(path, kept, rest)
  } catch (error) {
    await fs.setAttributes(path, { modified: before.modified }, rest)
    throw error
  }
  return undefined
}

function answer({ response }: Exchange, text: string): void {
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
