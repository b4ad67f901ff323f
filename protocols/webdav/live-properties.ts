/** Properties that are computed from what the tree knows (RFC 4918 §15 and others), each written as a whole element. */
import { contentType } from 'mime-types'
import { etagOf } from '../../src/change.js'
import type { Entry, Usage } from '../../src/driver.js'
import type { Lock } from '../../src/locks.js'
import type { PropertyName } from '../../src/properties.js'
import { lockDiscovery, supportedLock } from './locks.js'
import { davNamespace, escapeText } from './xml.js'

/** One resource whose properties are asked for. */
export interface Subject {
  readonly entry: Entry
  readonly locks: readonly Lock[]
  /** Only of the resource that was asked, and only where somebody wants it: each storage would have to be asked. */
  readonly usage?: Usage | undefined
}

/** What is the same for all resources of one answer. */
export interface Surroundings {
  readonly prefix: string
  /** Milliseconds. */
  readonly now: number
}

export interface LiveProperty extends PropertyName {
  /** RFC 4331 §3, §4: some are told only to those who ask by name. */
  readonly inAllprop: boolean
  /** The element, or undefined where this resource has no such property. */
  write(subject: Subject, surroundings: Surroundings): string | undefined
}

const ownCloud = 'http://owncloud.org/ns'
export const microsoft = 'urn:schemas-microsoft-com:'

function dav(name: string, write: LiveProperty['write'], inAllprop = true): LiveProperty {
  return { namespace: davNamespace, name, inAllprop, write }
}

/** Prefixes are those of the multistatus element. */
export const liveProperties: readonly LiveProperty[] = [
  dav('resourcetype', ({ entry }) =>
    entry.kind === 'folder' ? '<D:resourcetype><D:collection/></D:resourcetype>' : '<D:resourcetype/>',
  ),
  dav('displayname', ({ entry }) => `<D:displayname>${escapeText(entry.name)}</D:displayname>`),
  dav('getcontentlength', ({ entry }) =>
    entry.kind === 'folder' ? undefined : `<D:getcontentlength>${entry.size}</D:getcontentlength>`,
  ),
  dav('getlastmodified', ({ entry }) => `<D:getlastmodified>${httpDate(entry.modified)}</D:getlastmodified>`),
  dav('creationdate', ({ entry }) => `<D:creationdate>${isoDate(entry.created ?? entry.modified)}</D:creationdate>`),
  dav('getcontenttype', ({ entry }) =>
    entry.kind === 'folder' ? undefined : `<D:getcontenttype>${typeOf(entry.name)}</D:getcontenttype>`,
  ),
  dav('getetag', ({ entry }) =>
    entry.kind === 'folder' ? undefined : `<D:getetag>${escapeText(etagOf(entry))}</D:getetag>`,
  ),
  dav('supportedlock', () => supportedLock),
  dav('lockdiscovery', ({ locks }, { prefix, now }) => lockDiscovery(locks, prefix, now)),
  dav(
    'quota-available-bytes',
    ({ usage }) => usage && `<D:quota-available-bytes>${usage.free}</D:quota-available-bytes>`,
    false,
  ),
  dav('quota-used-bytes', ({ usage }) => usage && `<D:quota-used-bytes>${usage.used}</D:quota-used-bytes>`, false),
  {
    namespace: ownCloud,
    name: 'checksums',
    inAllprop: true,
    write: ({ entry }) => {
      const known = Object.entries(entry.hashes ?? {})
      if (known.length === 0) return undefined
      const told = known.map(([name, value]) => `<O:checksum>${name.toUpperCase()}:${value}</O:checksum>`)
      return `<O:checksums>${told.join('')}</O:checksums>`
    },
  },
  {
    // Windows sets it to change the time, and must find what it has set.
    namespace: microsoft,
    name: 'Win32LastModifiedTime',
    inAllprop: false,
    write: ({ entry }) => `<M:Win32LastModifiedTime>${httpDate(entry.modified)}</M:Win32LastModifiedTime>`,
  },
]

const byName = new Map(liveProperties.map((property) => [keyOf(property), property]))

export function liveProperty(name: PropertyName): LiveProperty | undefined {
  return byName.get(keyOf(name))
}

/** A text that differs whenever the name does. */
export function keyOf({ namespace, name }: PropertyName): string {
  return `{${namespace}}${name}`
}

/** Properties of ours that clients may give another value, kept like dead ones. */
export function isOverridable(name: PropertyName): boolean {
  return name.namespace === davNamespace && name.name === 'displayname' // RFC 4918 §15.2: not protected
}

export function isQuota({ namespace, name }: PropertyName): boolean {
  return namespace === davNamespace && name.startsWith('quota-')
}

/** Members of a folder often carry the very same second: formatting is most of what a date costs. */
function remembered(format: (date: Date) => string): (date: Date) => string {
  let second = NaN
  let text = ''
  return (date) => {
    const asked = Math.floor(date.getTime() / 1000)
    if (asked !== second) {
      text = format(new Date(Number.isFinite(asked) ? asked * 1000 : 0))
      second = asked
    }
    return text
  }
}
const httpDate = remembered((date) => date.toUTCString())
const isoDate = remembered((date) => date.toISOString().replace('.000Z', 'Z'))

const typesByExtension = new Map<string, string>()

/** By the extension, as GET tells it. */
function typeOf(name: string): string {
  const dot = name.lastIndexOf('.')
  const extension = dot < 0 ? '' : name.slice(dot + 1).toLowerCase()
  let type = typesByExtension.get(extension)
  if (type === undefined) {
    type = contentType(`x.${extension}`) || 'application/octet-stream'
    if (typesByExtension.size < 1000) typesByExtension.set(extension, type) // names are anybody's choice
  }
  return type
}
