/**
 * Streaming parser of 207 (Multi-Status) responses (RFC 4918 §13), and the entries that their properties describe. It
 * tolerates undeclared prefixes, characters that XML forbids, and malformed dates. It rejects truncated responses,
 * which would otherwise look like complete, shorter listings.
 */
import { TextDecoder } from 'node:util'
import { SaxesParser } from 'saxes'
import { pageSize, type Entry, type HashName } from '../../src/contract/entry.js'
import { protocolViolation } from './errors.js'

/** One `response` element. Missing and malformed values are undefined. */
export interface MultistatusResource {
  /** The reference, as the server sent it. */
  readonly href: string
  /** Status of the resource; else the lowest status of its `propstat` elements; 200 if there is none. */
  readonly status: number
  readonly properties: Properties
}

export interface Properties {
  readonly isFolder?: boolean
  readonly size?: number
  readonly modified?: Date
  readonly created?: Date
  readonly etag?: string
  /** ownCloud extension: `NAME:digest`, separated by spaces. */
  readonly checksums?: string
  /** Quota in bytes (RFC 4331). */
  readonly available?: number
  readonly used?: number
}

const maxDepth = 64
/** Maximum number of characters between the ends of two `response` elements. */
const maxPending = 4 * 1024 * 1024

/** Yields pages of resources. Rejects with `unavailable` if the body is not a multistatus document or is truncated. */
export async function* readMultistatus(body: AsyncIterable<Buffer>): AsyncGenerator<readonly MultistatusResource[]> {
  const reader = new MultistatusReader()
  let decoder: TextDecoder | undefined
  let charactersSinceProgress = 0
  for await (const chunk of body) {
    decoder ??= decoderFor(chunk)
    const text = decoder.decode(chunk, { stream: true })
    reader.write(text)
    charactersSinceProgress = reader.takeProgress() ? 0 : charactersSinceProgress + text.length
    if (charactersSinceProgress > maxPending) throw protocolViolation('sent too much data about one resource')
    for (let page = reader.take(pageSize, false); page; page = reader.take(pageSize, false)) yield page
  }
  reader.end()
  for (let page = reader.take(pageSize, true); page; page = reader.take(pageSize, true)) yield page
}

/** The encoding of the XML declaration; UTF-8 by default. */
function decoderFor(chunk: Buffer): TextDecoder {
  const [, label = 'utf-8'] =
    /^[^<]{0,4}<\?xml[^>]*encoding\s*=\s*["']([\w-]+)["']/i.exec(chunk.toString('latin1', 0, 200)) ?? []
  try {
    return new TextDecoder(label)
  } catch {
    throw protocolViolation('sent a response in an unknown encoding')
  }
}

/** An ampersand that is not part of a reference: some servers do not escape names (sigoden/dufs#19). */
const bareAmpersand = /&(?!(?:[a-z]{1,10}|#\d{1,8}|#x[\da-f]{1,8});)/gi

interface Open {
  readonly name: string
  text: string
}

interface Draft {
  href: string
  status: number | undefined
  properties: Properties
  /** Lowest status of its `propstat` elements. */
  propertyStatus?: number
}

class MultistatusReader {
  readonly #parser = new SaxesParser({ xmlns: true, position: false })
  readonly #open: Open[] = []
  readonly #resources: MultistatusResource[] = []
  #partialReference = ''
  #hasProgress = false
  #isComplete = false
  #response: Draft = { href: '', status: undefined, properties: {} }
  #propstat: Draft = { href: '', status: undefined, properties: {} }

  constructor() {
    const addText = (text: string) => {
      const open = this.#open.at(-1)
      if (open) open.text += text
    }
    this.#parser.on('error', () => undefined)
    this.#parser.on('text', addText)
    this.#parser.on('cdata', addText)
    this.#parser.on('opentag', ({ prefix, local, uri }) => {
      if (this.#open.length >= maxDepth) throw protocolViolation('sent a response that is nested too deeply')
      // For an undeclared prefix, the parser reports the prefix as the namespace.
      const isKnown = ['DAV:', '', prefix, 'http://owncloud.org/ns'].includes(uri)
      this.#begin(isKnown ? local : '')
    })
    this.#parser.on('closetag', () => {
      this.#finish()
    })
  }

  write(text: string): void {
    const all = this.#partialReference + text
    // An incomplete reference at the end is held back until the next chunk.
    const [last = ''] = /&[^;&<]{0,10}$/.exec(all) ?? []
    this.#partialReference = last
    this.#parser.write(all.slice(0, all.length - last.length).replace(bareAmpersand, '&amp;'))
  }

  end(): void {
    this.#parser.write(this.#partialReference.replace(bareAmpersand, '&amp;')).close()
    if (!this.#isComplete) throw protocolViolation('sent an invalid or truncated WebDAV response')
  }

  /** Whether a `response` element has ended since the last call. */
  takeProgress(): boolean {
    const hadProgress = this.#hasProgress
    this.#hasProgress = false
    return hadProgress
  }

  /**
   * Removes and returns the next `count` resources; undefined if there are fewer. With `rest`, a last, shorter page is
   * returned too.
   */
  take(count: number, rest: boolean): readonly MultistatusResource[] | undefined {
    const isAvailable = rest ? this.#resources.length > 0 : this.#resources.length >= count
    return isAvailable ? this.#resources.splice(0, count) : undefined
  }

  #begin(name: string): void {
    const parent = this.#open.at(-1)?.name
    if (name === 'response') this.#response = { href: '', status: undefined, properties: {} }
    if (name === 'propstat') this.#propstat = { href: '', status: undefined, properties: {} }
    if (name === 'collection' && parent === 'resourcetype') this.#addProperties({ isFolder: true })
    this.#open.push({ name, text: '' })
  }

  #finish(): void {
    const { name, text } = this.#open.pop() ?? { name: '', text: '' }
    const parent = this.#open.at(-1)
    const draft = parent?.name === 'propstat' ? this.#propstat : this.#response
    if (name === 'multistatus' && !parent) this.#isComplete = true
    else if (name === 'href' && parent?.name === 'response') this.#response.href = text.trim()
    else if (name === 'status') draft.status = statusOf(text)
    else if (name === 'checksum' && parent) parent.text += `${text} `
    else if (parent?.name === 'prop') this.#addProperties(propertyOf(name, text.trim()))
    else if (name === 'propstat') this.#mergeProperties()
    else if (name === 'response') this.#addResource()
  }

  #addProperties(properties: Properties): void {
    this.#propstat.properties = { ...this.#propstat.properties, ...properties }
  }

  #mergeProperties(): void {
    const { status = 200, properties } = this.#propstat
    if (status < 300) this.#response.properties = { ...this.#response.properties, ...properties }
    this.#response.propertyStatus = Math.min(this.#response.propertyStatus ?? status, status)
  }

  #addResource(): void {
    // If every `propstat` failed, the resource failed: it is not an empty file.
    const { href, propertyStatus = 200, status = propertyStatus, properties } = this.#response
    this.#hasProgress = true
    if (href !== '') this.#resources.push({ href, status, properties })
  }
}

/** The code of a status line such as `HTTP/1.1 200 OK`. */
function statusOf(line: string): number | undefined {
  const [, code] = /^\s*HTTP\/[\d.]+\s+(\d{3})\b/i.exec(line) ?? []
  return code === undefined ? undefined : Number(code)
}

function propertyOf(name: string, text: string): Properties {
  switch (name) {
    case 'getcontentlength':
      return /^\d{1,15}$/.test(text) ? { size: Number(text) } : {}
    case 'getlastmodified': {
      const modified = new Date(text)
      return Number.isNaN(modified.getTime()) ? {} : { modified }
    }
    case 'creationdate': {
      const created = new Date(text)
      return Number.isNaN(created.getTime()) ? {} : { created }
    }
    case 'getetag':
      return text === '' ? {} : { etag: text }
    case 'checksums':
      return text === '' ? {} : { checksums: text }
    case 'quota-available-bytes':
      return /^\d{1,18}$/.test(text) ? { available: Number(text) } : {}
    case 'quota-used-bytes':
      return /^\d{1,18}$/.test(text) ? { used: Number(text) } : {}
    default:
      return {}
  }
}

export function entryOf(name: string, { isFolder, size = 0, modified = new Date(0), ...more }: Properties): Entry {
  if (isFolder === true)
    return { name, kind: 'folder', size: 0, modified, ...(more.created && { created: more.created }) }
  const revision = revisionOf(more.etag)
  const hashes = hashesOf(more.checksums ?? '')
  return {
    name,
    kind: 'file',
    size,
    modified,
    ...(revision !== undefined && { revision }),
    ...(hashes && { hashes }),
    ...(more.created && { created: more.created }),
  }
}

/**
 * The ETag without quotes and without `W/`: Apache turns the weak tag of a new file into a strong one although the
 * content is unchanged (Apache httpd: server/util_etag.c). An empty one, which all files of a server may have, is none.
 */
export function revisionOf(etag: string | undefined): string | undefined {
  return etag?.replace(/^(?:W\/)?"(.*)"$/, '$1') || undefined
}

const hashNames: Readonly<Record<string, { readonly name: HashName; readonly digits: number }>> = {
  MD5: { name: 'md5', digits: 32 },
  SHA1: { name: 'sha1', digits: 40 },
  SHA256: { name: 'sha256', digits: 64 },
}

/** Maximum length of the property that is parsed. */
const maxChecksumsLength = 1024

function hashesOf(checksums: string): Partial<Record<HashName, string>> | undefined {
  const hashes: Partial<Record<HashName, string>> = {}
  for (const checksum of checksums.slice(0, maxChecksumsLength).split(/[\s,]+/)) {
    const [, word = '', digest = ''] = /^([\w-]+):([\da-f]+)$/i.exec(checksum) ?? []
    const known = hashNames[word.toUpperCase()]
    if (known?.digits === digest.length) hashes[known.name] = digest.toLowerCase()
  }
  return Object.keys(hashes).length > 0 ? hashes : undefined
}
