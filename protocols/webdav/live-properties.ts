/** Live properties: computed from entries, locks and usage (RFC 4918 §15 and others) and rendered as XML elements. */
import { LRUCache } from 'lru-cache'
import { contentType } from 'mime-types'
import type { Usage } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Lock } from '../../src/locks/webdav-locks.js'
import { etagOf } from '../../src/tree/preconditions.js'
import type { PropertyName } from '../../src/tree/virtual-fs.js'
import { lockDiscovery, supportedLock } from './locks.js'
import { davNamespace, escapeText } from './xml.js'

/** A resource whose properties are rendered. */
export interface Resource {
  readonly entry: Entry
  readonly locks: readonly Lock[]
  /** The space of the storage. Only for the target of the request, and if requested: it costs a call of the backend. */
  readonly usage?: Usage | undefined
}

/** Values that are the same for all resources of a response. */
export interface RenderOptions {
  /** Path of the tree's root: the prefix of every href. */
  readonly prefix: string
  /** Current time in milliseconds since the epoch. */
  readonly now: number
}

export interface LiveProperty extends PropertyName {
  /** Whether allprop includes the property. RFC 4331 §3 and §4 exclude some. */
  readonly inAllprop: boolean
  /** Renders the element. Returns undefined if the resource does not have the property. */
  render(subject: Resource, renderContext: RenderOptions): string | undefined
}

const ownCloud = 'http://owncloud.org/ns'
export const microsoftNamespace = 'urn:schemas-microsoft-com:'

function dav(name: string, write: LiveProperty['render'], inAllprop = true): LiveProperty {
  return { namespace: davNamespace, name, inAllprop, render: write }
}

/** The namespace prefixes are declared on the multistatus element. */
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
    render: ({ entry }) => {
      const hashes = Object.entries(entry.hashes ?? {})
      if (hashes.length === 0) return undefined
      const checksums = hashes.map(([name, value]) => `<O:checksum>${name.toUpperCase()}:${value}</O:checksum>`)
      return `<O:checksums>${checksums.join('')}</O:checksums>`
    },
  },
  {
    // Windows sets this property to change the modification time, and reads it back (MS-WDVME, mar10/wsgidav#112).
    namespace: microsoftNamespace,
    name: 'Win32LastModifiedTime',
    inAllprop: false,
    render: ({ entry }) => `<M:Win32LastModifiedTime>${httpDate(entry.modified)}</M:Win32LastModifiedTime>`,
  },
]

const byName = new Map(liveProperties.map((property) => [keyOf(property), property]))

export function liveProperty(name: PropertyName): LiveProperty | undefined {
  return byName.get(keyOf(name))
}

/** A unique map key for a property name. */
export function keyOf({ namespace, name }: PropertyName): string {
  return `{${namespace}}${name}`
}

/** Whether clients may override this live property. The new value is stored as a dead property. */
export function isOverridable(name: PropertyName): boolean {
  return name.namespace === davNamespace && name.name === 'displayname' // RFC 4918 §15.2: not protected
}

export function isQuota({ namespace, name }: PropertyName): boolean {
  return namespace === davNamespace && name.startsWith('quota-')
}

/** Caches the last formatted second: formatting is expensive, and entries of a folder often have the same time. */
function memoized(format: (date: Date) => string): (date: Date) => string {
  let cachedSecond = NaN
  let text = ''
  return (date) => {
    const second = Math.floor(date.getTime() / 1000)
    if (second !== cachedSecond) {
      text = format(new Date(Number.isFinite(second) ? second * 1000 : 0))
      cachedSecond = second
    }
    return text
  }
}
const httpDate = memoized((date) => date.toUTCString())
const isoDate = memoized((date) => date.toISOString().replace('.000Z', 'Z'))

/** Bounded, because clients choose the names. */
const typesByExtension = new LRUCache<string, string>({
  max: 1000,
  memoMethod: (extension) => contentType(`x.${extension}`) || 'application/octet-stream',
})

/** The media type for the extension of a name, as GET sends it. */
function typeOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return typesByExtension.memo(dot < 0 ? '' : name.slice(dot + 1).toLowerCase())
}
