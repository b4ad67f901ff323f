/** What the XML bodies of PROPFIND, PROPPATCH and LOCK ask for (RFC 4918 §14). */
import { GatewayError } from '../../src/errors.js'
import type { LockRequest } from '../../src/locks.js'
import type { Property, PropertyChange, PropertyName } from '../../src/properties.js'
import { davChild, davNamespace, elementsOf, isElement, serialize, serializeContent, type XmlElement } from './xml.js'

export type PropertyQuestion =
  | { readonly kind: 'allprop'; readonly include: readonly PropertyName[] }
  | { readonly kind: 'propname' }
  | { readonly kind: 'prop'; readonly names: readonly PropertyName[] }

/** RFC 4918 §9.1: no body asks for everything. Rejects with `invalid` for a body that is no such question, with `too_large` for too many names. */
export function propertyQuestion(body: XmlElement | undefined): PropertyQuestion {
  if (body === undefined) return { kind: 'allprop', include: [] }
  expectRoot(body, 'propfind')
  const asked = elementsOf(body).filter(
    ({ namespace, name }) => namespace === davNamespace && ['allprop', 'propname', 'prop'].includes(name),
  )
  const [question] = asked
  if (question === undefined || asked.length > 1) {
    throw invalid('propfind asks for one of allprop, propname and prop')
  }
  if (question.name === 'prop') return { kind: 'prop', names: namesIn(question) }
  if (question.name === 'propname') return { kind: 'propname' }
  const include = davChild(body, 'include')
  return { kind: 'allprop', include: include ? namesIn(include) : [] }
}

/** RFC 4918 §9.2: the changes in document order. */
export function propertyChanges(body: XmlElement | undefined): readonly PropertyChange[] {
  if (body === undefined) throw invalid('PROPPATCH needs a body')
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
  if (changes.length === 0) throw invalid('propertyupdate changes nothing')
  return few(changes)
}

/** RFC 4918 §14.11, but for depth and time, which stand in the headers. */
export function lockQuestion(body: XmlElement): Pick<LockRequest, 'scope' | 'owner'> {
  expectRoot(body, 'lockinfo')
  const scope = davChild(body, 'lockscope')
  const type = davChild(body, 'locktype')
  const exclusive = scope && davChild(scope, 'exclusive')
  const shared = scope && davChild(scope, 'shared')
  if (!exclusive === !shared) throw invalid('lockscope is exclusive or shared')
  if (!type || !davChild(type, 'write')) throw invalid('locktype is write')
  const owner = davChild(body, 'owner')
  return { scope: exclusive ? 'exclusive' : 'shared', owner: owner ? serialize(owner) : '' }
}

function namesIn(element: XmlElement): readonly PropertyName[] {
  return few(elementsOf(element).map(nameOf))
}

/** Each is asked for, or stored, of each resource: a short request must not make for hours of work. */
function few<Item>(items: readonly Item[]): readonly Item[] {
  if (items.length > mostProperties) {
    throw new GatewayError('too_large', { reason: `a request may name ${mostProperties} properties` })
  }
  return items
}

const mostProperties = 1000

function nameOf({ namespace, name }: XmlElement): PropertyName {
  return { namespace, name }
}

function propertyOf(element: XmlElement): Property {
  return { ...nameOf(element), value: serializeContent(element), language: element.language }
}

function expectRoot(body: XmlElement, name: string): void {
  if (!isElement(body, davNamespace, name)) throw invalid(`the body is no ${name} of DAV:`)
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
