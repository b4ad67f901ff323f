/** Parses the XML bodies of PROPFIND, PROPPATCH and LOCK (RFC 4918 §14). */
import { GatewayError } from '../../src/base/errors.js'
import { maxOwnerSize, type LockRequest } from '../../src/locks/webdav-locks.js'
import { maxPropertiesSize, type Property, type PropertyChange, type PropertyName } from '../../src/tree/virtual-fs.js'
import {
  davChild,
  davNamespace,
  elementsOf,
  isElement,
  serialize,
  serializeContent,
  spend,
  wrap,
  type CharacterLimit,
  type XmlElement,
} from './xml.js'

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

/**
 * Parses the body of PROPPATCH (RFC 4918 §9.2): the changes in document order. Throws `invalid`; `too_large` for too
 * many properties and for names that are too long; `no_space` for more than one file or folder may have.
 */
export function parsePropertyUpdate(body: XmlElement | undefined): readonly PropertyChange[] {
  if (body === undefined) throw invalid('PROPPATCH requires a body')
  expectRoot(body, 'propertyupdate')
  const changes: PropertyChange[] = []
  const limit: CharacterLimit = { left: maxPropertiesSize, exceeded: propertiesTooLarge }
  for (const action of elementsOf(body)) {
    const isSet = isElement(action, davNamespace, 'set')
    if (!isSet && !isElement(action, davNamespace, 'remove')) continue
    for (const property of elementsOf(action).filter((child) => isElement(child, davNamespace, 'prop'))) {
      for (const element of elementsOf(property)) {
        if (changes.length >= maxProperties) throw tooManyProperties()
        changes.push(isSet ? { set: propertyOf(element, limit) } : { remove: nameOf(element, limit) })
      }
    }
  }
  if (changes.length === 0) throw invalid('propertyupdate contains no changes')
  return changes
}

/**
 * Parses the body of LOCK (RFC 4918 §14.11). Depth and timeout are in the headers. Throws `invalid`, and `too_large`
 * for a long owner.
 */
export function parseLockInfo(body: XmlElement): Pick<LockRequest, 'scope' | 'owner'> {
  expectRoot(body, 'lockinfo')
  const scope = davChild(body, 'lockscope')
  const type = davChild(body, 'locktype')
  const exclusive = scope && davChild(scope, 'exclusive')
  const shared = scope && davChild(scope, 'shared')
  if (!exclusive === !shared) throw invalid('lockscope must be exclusive or shared')
  if (!type || !davChild(type, 'write')) throw invalid('locktype must be write')
  const owner = davChild(body, 'owner')
  return { scope: exclusive ? 'exclusive' : 'shared', owner: owner ? serialize(owner, ownerLimit()) : '' }
}

function ownerLimit(): CharacterLimit {
  const exceeded = () =>
    new GatewayError('too_large', { reason: `the owner of a lock may have at most ${maxOwnerSize} characters` })
  return { left: maxOwnerSize, exceeded }
}

/** Throws `too_large` if there are too many, or they are too long: the response repeats them for each resource. */
function namesIn(element: XmlElement): readonly PropertyName[] {
  const names: PropertyName[] = []
  const limit: CharacterLimit = { left: maxRequestedNames, exceeded: namesTooLong }
  for (const child of elementsOf(element)) {
    if (names.length >= maxProperties) throw tooManyProperties()
    const { namespace, name } = child
    spend(limit, wrap(child, ''))
    names.push({ namespace, name })
  }
  return names
}

/** Maximum number of properties of a request. Each one is looked up or stored for every resource of the request. */
const maxProperties = 1000

/** Maximum number of characters of the names in a PROPFIND, as elements. */
const maxRequestedNames = 32 * 1024

/** Maximum numbers of characters in the name of a property that is set. */
const maxNamespace = 2048
const maxName = 1024

function tooManyProperties(): GatewayError {
  return new GatewayError('too_large', { reason: `a request may name at most ${maxProperties} properties` })
}

function namesTooLong(): GatewayError {
  return new GatewayError('too_large', { reason: 'the names of the properties are too long' })
}

function propertiesTooLarge(): GatewayError {
  return new GatewayError('no_space', {
    reason: `the properties of one file or folder are limited to ${maxPropertiesSize} characters`,
  })
}

function nameOf({ namespace, name }: XmlElement, limit: CharacterLimit): PropertyName {
  if (namespace.length + name.length > limit.left) throw namesTooLong()
  spend(limit, namespace)
  spend(limit, name)
  return { namespace, name }
}

function propertyOf(element: XmlElement, limit: CharacterLimit): Property {
  const { namespace, name, language } = element
  if (namespace.length > maxNamespace || name.length > maxName) throw namesTooLong()
  spend(limit, language)
  return { ...nameOf(element, limit), value: serializeContent(element, limit), language }
}

function expectRoot(body: XmlElement, name: string): void {
  if (!isElement(body, davNamespace, name)) throw invalid(`the root element must be ${name} in the namespace DAV:`)
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
