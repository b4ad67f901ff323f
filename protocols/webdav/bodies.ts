/** Parses the XML bodies of PROPFIND, PROPPATCH and LOCK (RFC 4918 §14). */
import { GatewayError } from '../../src/contract/errors.js'
import type { LockRequest } from '../../src/tree/locks.js'
import type { Property, PropertyChange, PropertyName } from '../../src/tree/virtual-fs.js'
import { davChild, davNamespace, elementsOf, isElement, serialize, serializeContent, type XmlElement } from './xml.js'

/** The properties that a PROPFIND requests. */
export type PropertyQuery =
  | { readonly kind: 'allprop'; readonly include: readonly PropertyName[] }
  | { readonly kind: 'propname' }
  | { readonly kind: 'prop'; readonly names: readonly PropertyName[] }

/**
 * Parses the body of PROPFIND (RFC 4918 §9.1). No body means allprop. Throws `invalid` for a malformed body, and
 * `too_large` for too many names.
 */
export function parsePropfind(body: XmlElement | undefined): PropertyQuery {
  if (body === undefined) return { kind: 'allprop', include: [] }
  expectRoot(body, 'propfind')
  const kinds = elementsOf(body).filter(
    ({ namespace, name }) => namespace === davNamespace && ['allprop', 'propname', 'prop'].includes(name),
  )
  const [kind] = kinds
  if (kind === undefined || kinds.length > 1) {
    throw invalid('propfind must contain exactly one of allprop, propname and prop')
  }
  if (kind.name === 'prop') return { kind: 'prop', names: namesIn(kind) }
  if (kind.name === 'propname') return { kind: 'propname' }
  const include = davChild(body, 'include')
  return { kind: 'allprop', include: include ? namesIn(include) : [] }
}

/** Parses the body of PROPPATCH (RFC 4918 §9.2): the changes in document order. Throws `invalid` or `too_large`. */
export function parsePropertyUpdate(body: XmlElement | undefined): readonly PropertyChange[] {
  if (body === undefined) throw invalid('PROPPATCH requires a body')
  expectRoot(body, 'propertyupdate')
  const changes: PropertyChange[] = []
  for (const action of elementsOf(body)) {
    const isSet = isElement(action, davNamespace, 'set')
    if (!isSet && !isElement(action, davNamespace, 'remove')) continue
    for (const property of elementsOf(action).filter((child) => isElement(child, davNamespace, 'prop'))) {
      for (const element of elementsOf(property)) {
        changes.push(isSet ? { set: propertyOf(element) } : { remove: nameOf(element) })
      }
    }
  }
  if (changes.length === 0) throw invalid('propertyupdate contains no changes')
  return limited(changes)
}

/** Parses the body of LOCK (RFC 4918 §14.11). Depth and timeout are in the headers. Throws `invalid`. */
export function parseLockInfo(body: XmlElement): Pick<LockRequest, 'scope' | 'owner'> {
  expectRoot(body, 'lockinfo')
  const scope = davChild(body, 'lockscope')
  const type = davChild(body, 'locktype')
  const exclusive = scope && davChild(scope, 'exclusive')
  const shared = scope && davChild(scope, 'shared')
  if (!exclusive === !shared) throw invalid('lockscope must be exclusive or shared')
  if (!type || !davChild(type, 'write')) throw invalid('locktype must be write')
  const owner = davChild(body, 'owner')
  return { scope: exclusive ? 'exclusive' : 'shared', owner: owner ? serialize(owner) : '' }
}

function namesIn(element: XmlElement): readonly PropertyName[] {
  return limited(elementsOf(element).map(nameOf))
}

/** Throws `too_large` for too many properties: each one is looked up or stored for every resource of the request. */
function limited<Item>(items: readonly Item[]): readonly Item[] {
  if (items.length > maxProperties) {
    throw new GatewayError('too_large', { reason: `a request may name at most ${maxProperties} properties` })
  }
  return items
}

const maxProperties = 1000

function nameOf({ namespace, name }: XmlElement): PropertyName {
  return { namespace, name }
}

function propertyOf(element: XmlElement): Property {
  return { ...nameOf(element), value: serializeContent(element), language: element.language }
}

function expectRoot(body: XmlElement, name: string): void {
  if (!isElement(body, davNamespace, name)) throw invalid(`the root element must be ${name} in the namespace DAV:`)
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
